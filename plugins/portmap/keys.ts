/**
 * The keys of portmap's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "forwards host ports to the container",
  goPeer: "containernetworking/plugins plugins/meta/portmap",
  text:
    "Makes ports of a container reachable as ports of the host. Chain it after a plugin that gives the container an address, such as bridge or ptp.",
  example,
  keys: {
    "backend": {
      text:
        "`iptables` or `nftables`. The default is iptables, unless only nftables works on the host for the container's families.",
      type: "string",
      default: "what the host supports",
      since: "1.6.0",
    },
    "snat": {
      text:
        "Masquerades connections that could not return otherwise (see below).",
      type: "boolean",
      default: "`true`",
    },
    "conditionsV4": {
      text:
        "A match that IPv4 packets must meet, as a list of words in the backend's syntax.",
      type: "list of strings",
      default: "none",
      names: "program",
    },
    "conditionsV6": {
      text: "Like `conditionsV4`, for IPv6 packets.",
      type: "list of strings",
      default: "none",
      names: "program",
    },
    "masqAll": {
      text:
        "Masquerades all connections to the ports. The container does not see the clients' addresses.",
      type: "boolean",
      default: "`false`",
      since: "1.2.0",
    },
    "markMasqBit": {
      text:
        "iptables: the bit of the packet mark that means masquerade. nftables needs no mark.",
      type: "integer, 0–31",
      default: "`13`",
      names: "firewall",
      usual: ["13"],
    },
    "externalSetMarkChain": {
      text:
        "iptables: a chain that sets such a mark. Cannot be combined with `markMasqBit`.",
      type: "string",
      default: "none",
      names: "firewall",
      usual: ["KUBE-MARK-MASQ"],
    },
    "runtimeConfig": {
      text: "`portMappings`, a list that the runtime sets.",
      type: "object",
    },
  },
};
