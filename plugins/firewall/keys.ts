/**
 * The keys of firewall's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "firewall",
  summary: "lets the container's traffic through the host's firewall",
  goPeer: "containernetworking/plugins plugins/meta/firewall",
  text:
    "Lets a container's traffic through the host's firewall, and can keep networks apart. Chain it after a plugin that gives the container an address, such as bridge or ptp.",
  example,
  keys: {
    "backend": {
      text: "Where the rules are kept (see below).",
      type: "`iptables`, `firewalld` or `nftables`",
      default: "the host decides",
    },
    "iptablesAdminChainName": {
      text: "The chain of iptables for your own rules, which come first.",
      type: "string, at most 28 characters",
      default: "`CNI-ADMIN`",
    },
    "firewalldZone": {
      text: "The zone of firewalld that gets the container's addresses.",
      type: "string",
      default: "`trusted`",
    },
    "ingressPolicy": {
      text: "Who may connect to the container (see below).",
      type: "`open`, `same-bridge` or `isolated`",
      default: "`open`",
      since: "1.1.0",
    },
  },
};
