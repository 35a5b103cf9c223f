/**
 * What tools know about contivk8s. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "contivk8s",
  kind: "meta",
  status: "experimental",
  page: "remote",
  install: { onRequest: true },
  passesOn: true,
  traits: ["runs what it names"],
  hasDeepStatus: true,
  keys: async () => ({
    ...(await import("../remote/keys.ts")).keys,
    summary: "is remote, with the name and defaults of contiv's plugin",
  }),
};
