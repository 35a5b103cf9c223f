/**
 * The keys of bridge's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import { CONFLICT_CHECK_KEY } from "../parts/address/conflict_check_key.ts";
import { MASQUERADE_KEYS } from "../parts/firewall/masquerade/keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "connects the containers of a host to a bridge",
  goPeer: "containernetworking/plugins plugins/main/bridge",
  text:
    "Connects the containers of a host to a bridge. They reach each other through it. With `isGateway` they also reach the host and the networks behind it.",
  example,
  keys: {
    "ipam": {
      text:
        "The IPAM plugin, `type`, and its configuration. Without it the container has no addresses, and keys about gateways and masquerading are ignored.",
      type: "object",
      default: "none",
    },
    "bridge": {
      text: "Name of the bridge. Created if missing, never deleted.",
      type: "string",
      default: "`cni0`",
      names: "interface",
    },
    "isGateway": {
      text:
        "Adds the gateway addresses to the bridge and enables forwarding on the host.",
      type: "boolean",
      default: "`false`",
    },
    "isDefaultGateway": {
      text: "Like `isGateway`, and adds default routes through it.",
      type: "boolean",
      default: "`false`",
    },
    "forceAddress": {
      text: "Deletes conflicting addresses of the bridge instead of failing.",
      type: "boolean",
      default: "`false`",
    },
    "ipMasq": {
      text:
        "Masquerades traffic that leaves the network; see [ptp](ptp.md#masquerade) and [going back](ptp.md#going-back-to-the-go-plugins).",
      type: "boolean",
      default: "`false`",
    },
    ...MASQUERADE_KEYS,
    "ipMasqBackend": {
      text:
        "Where the rules are kept: `nftables` or `iptables`. See [ptp](ptp.md#masquerade).",
      type: "string",
      default: "what the host supports",
      since: "1.6.0",
    },
    "mtu": {
      text:
        "MTU of the veth pair and of a created bridge in bytes; 0 or less means the default.",
      type: "integer",
      default: "the kernel's",
    },
    "hairpinMode": {
      text:
        "Allows frames to leave through the port they came in on. Cannot be combined with `promiscMode`.",
      type: "boolean",
      default: "`false`",
    },
    "promiscMode": {
      text: "Sets the bridge to promiscuous mode.",
      type: "boolean",
      default: "`false`",
    },
    "vlan": {
      text: "The container's VLAN.",
      type: "0 to 4094",
      default: "0, none",
      since: "0.8.0",
      example: 100,
    },
    "vlanTrunk": {
      text:
        'VLANs that the container tags itself: `{"id": 101}`, `{"minID": 200, "maxID": 210}`, from 1 to 4094.',
      type: "list",
      default: "none",
      since: "1.3.0",
    },
    "vlanTrunk[].id": {
      text: "A VLAN.",
      since: "1.3.0",
    },
    "vlanTrunk[].minID": {
      text: "First VLAN of a range.",
      since: "1.3.0",
    },
    "vlanTrunk[].maxID": {
      text: "Last VLAN of a range.",
      since: "1.3.0",
    },
    "preserveDefaultVlan": {
      text: "Keeps the port in the bridge's default VLAN.",
      type: "boolean",
      default: "`false`",
      since: "1.3.0",
    },
    "macspoofchk": {
      text: "Drops frames from the container with a MAC other than its own.",
      type: "boolean",
      default: "`false`",
      since: "1.1.0",
    },
    "enabledad": {
      text:
        "Detects duplicate IPv6 addresses, which takes one to two seconds. ADD fails if there is one.",
      type: "boolean",
      default: "`false`",
      since: "1.1.0",
    },
    "conflictCheck": CONFLICT_CHECK_KEY,
    "disableContainerInterface": {
      text:
        "Leaves the container's interface down. Cannot be combined with `ipam`.",
      type: "boolean",
      default: "`false`",
      since: "1.4.1",
    },
    "portIsolation": {
      text:
        "Isolates the container from other isolated containers. It still reaches the bridge and other ports.",
      type: "boolean",
      default: "`false`",
      since: "1.7.0",
    },
    "dns": {
      text:
        "`nameservers`, `domain`, `search`, `options`. Any of these keys, even an empty list, overrides the IPAM plugin's result.",
      type: "object",
      default: "the IPAM plugin's",
    },
    "runtimeConfig.mac": {
      since: "1.0.0",
    },
  },
};
