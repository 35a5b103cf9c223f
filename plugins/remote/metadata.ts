/**
 * Metadata of remote for tools. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "remote",
  kind: "meta",
  status: "experimental",
  runs: {},
  passesOn: true,
  traits: ["runs what it names"],
  hasDeepStatus: true,
  keys: async () => (await import("./keys.ts")).keys,
};
