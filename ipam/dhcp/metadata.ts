/**
 * What tools know about dhcp. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "dhcp",
  kind: "ipam",
  status: "stable",
  differences: [{
    text: "Go's daemon does not answer it: change the daemon too",
  }],
  keys: async () => (await import("./keys.ts")).keys,
  leftovers: async () => (await import("./leftovers.ts")).leftovers,
};
