/**
 * What tools know about dhcp. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { lint } from "./lint.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "dhcp",
  kind: "ipam",
  status: "stable",
  traits: ["asks over link", "assigns own ranges", "replaces addresses"],
  differences: [{
    text:
      "the daemon of the Go plugin does not answer this plugin: replace the daemon as well",
  }],
  lint,
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => (await import("./orphans.ts")).orphans,
};
