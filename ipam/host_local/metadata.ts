/**
 * host-local for tools. Calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { lint, listRanges, listSubnets } from "./lint.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "host-local",
  kind: "ipam",
  status: "stable",
  traits: ["assigns own ranges", "replaces addresses"],
  differences: [{
    uses: /"ips":true/,
    text: "a second ADD with a requested address is refused",
  }],
  lint,
  ranges: listRanges,
  subnets: listSubnets,
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => (await import("./orphans.ts")).orphans,
};
