/**
 * The keys of bandwidth's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "limits a container's traffic in both directions",
  goPeer: "containernetworking/plugins plugins/meta/bandwidth",
  text:
    "Limits the rate at which a container receives and sends. Chain it after the plugin that connects the container, such as ptp, bridge or macvlan.",
  example,
  keys: {
    "ingressRate": {
      text: "The rate at which the container may receive.",
      type: "integer, bits per second",
      default: "no limit",
    },
    "ingressBurst": {
      text:
        "How much the container may receive in one burst. Needs `ingressRate`.",
      type: "integer, bits",
      default: "a tenth of a second of the rate, at least 18 KiB",
    },
    "egressRate": {
      text: "The rate at which the container may send.",
      type: "integer, bits per second",
      default: "no limit",
    },
    "egressBurst": {
      text: "How much the container may send in one burst. Needs `egressRate`.",
      type: "integer, bits",
      default: "a tenth of a second of the rate, at least 18 KiB",
    },
    "shapedSubnets": {
      text:
        "Limits only traffic with these subnets. Cannot be combined with `unshapedSubnets`.",
      type: "list of CIDRs",
      default: "everything",
    },
    "unshapedSubnets": {
      text: "Limits all traffic except traffic with these subnets.",
      type: "list of CIDRs",
      default: "none",
    },
    "runtimeConfig": {
      text:
        "`bandwidth` with the four numbers, set by the runtime (see below).",
      type: "object",
    },
    "runtimeConfig.bandwidth.shapedSubnets": {
      text: "Limits only traffic with these subnets.",
    },
    "runtimeConfig.bandwidth.unshapedSubnets": {
      text: "Limits all traffic except traffic with these subnets.",
    },
  },
};
