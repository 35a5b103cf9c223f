/**
 * The keys of loopback's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "loopback",
  summary: "brings up the container's `lo`",
  goPeer: "containernetworking/plugins plugins/main/loopback",
  text:
    "Brings up the sandbox's lo. containerd and other runtimes call it for every container.",
  example,
  keys: {},
};
