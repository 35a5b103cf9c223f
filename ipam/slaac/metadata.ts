/**
 * What tools know about slaac. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { lint } from "./lint.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "slaac",
  kind: "ipam",
  status: "stable",
  traits: ["asks over link", "assigns own ranges", "needs router"],
  lint,
  keys: async () => (await import("./keys.ts")).keys,
};
