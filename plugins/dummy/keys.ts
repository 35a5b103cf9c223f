/**
 * The keys of dummy's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "dummy",
  summary: "creates an interface that is connected to nothing",
  goPeer: "containernetworking/plugins plugins/main/dummy",
  text:
    "Gives a container an interface that no packet leaves, for addresses that it owns without a network.",
  example,
  required: [
    "ipam",
  ],
  keys: {
    "ipam": {
      text: "IPAM plugin. Required.",
      type: "object",
    },
  },
};
