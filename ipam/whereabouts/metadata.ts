/**
 * whereabouts for tools. Calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { lint, listSubnets } from "./lint.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "whereabouts",
  kind: "ipam",
  status: "stable",
  install: { onRequest: true, isCopy: true },
  hasDeepStatus: true,
  traits: ["leases requests", "replaces addresses"],
  lint,
  subnets: listSubnets,
  keys: async () => (await import("./keys.ts")).keys,
};
