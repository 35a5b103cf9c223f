/**
 * What tools know about firewall. Its calls never load this file.
 *
 * @module
 */

import { findValue } from "../../base/json/json.ts";
import {
  type BuiltInMetadata,
  hasIptablesBackend,
} from "../../metadata/plugin_metadata.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "firewall",
  kind: "chained",
  runsIptables: hasIptablesBackend,
  filtersBridge: (conf) => findValue(conf, "ingressPolicy") === "isolated",
  status: "stable",
  differences: [{
    text: "after a rollback, the nftables table inet cni_firewall remains",
  }],
  keys: () => ({
    summary: "lets the container's traffic through the host's firewall",
    goPeer: "containernetworking/plugins plugins/meta/firewall",
    text:
      "Lets a container's traffic through the host's firewall, and can keep networks apart. Chain it after a plugin that gives the container an address, such as bridge or ptp.",
    example,
    keys: {
      "backend": {
        text: "Where the rules are kept (see below).",
        type: "`iptables`, `firewalld` or `nftables`",
        default: "depends on the host",
      },
      "iptablesAdminChainName": {
        text: "The chain of iptables for your own rules, which come first.",
        type: "string, at most 28 characters",
        default: "`CNI-ADMIN`",
        names: "firewall",
        usual: ["CNI-ADMIN"],
      },
      "firewalldZone": {
        text: "The zone of firewalld that gets the container's addresses.",
        type: "string",
        default: "`trusted`",
        names: "firewall",
        usual: ["trusted"],
      },
      "ingressPolicy": {
        text: "Who may connect to the container (see below).",
        type: "`open`, `same-bridge` or `isolated`",
        default: "`open`",
        since: "1.1.0",
      },
    },
  }),
  orphans: async () => (await import("./orphans.ts")).orphans,
};
