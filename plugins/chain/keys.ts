/**
 * The keys of chain's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "chain",
  summary: "runs the plugins of a list in one process",
  text:
    "Runs several plugins in one process, instead of one process per plugin.",
  example,
  keys: {
    "plugins": {
      text:
        "The plugins, in the order ADD runs them, as in a network's `plugins`.",
      type: "list of objects",
      default: "required",
    },
    "capabilities": {
      text:
        "The capabilities to request from the runtime: all that any plugin declares.",
      type: "object",
      default: "none",
    },
    "args": {
      text:
        "Set by runtimes such as multus. Merged into the `args` of each plugin.",
      type: "object",
      default: "none",
    },
    "ipMasq": {
      text: "Whether to masquerade traffic that leaves the network.",
    },
  },
};
