/**
 * Metadata of chain for tools. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "chain",
  kind: "meta",
  status: "stable",
  ipam: "possible",
  runs: {},
  traits: ["runs listed plugins", "runs what it names"],
  hasDeepStatus: true,
  orphans: async () => (await import("./orphans.ts")).orphans,
  keys: () => ({
    summary: "runs the plugins of a network list in one process",
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
        text: "Has no effect here: it belongs in a plugin of the chain.",
      },
    },
  }),
};
