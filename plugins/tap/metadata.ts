/**
 * Metadata of tap for tools. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { NetNs } from "../../ffi/netns.ts";
import { createTap } from "../../ffi/tun.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "tap",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  queues: "none",
  needs: [{
    name: "tap",
    module: "tun",
    probe: (path) => {
      using netns = NetNs.open(path);
      createTap(netns, { name: "p-tap", isMultiQueue: false });
    },
  }],
  keys: async () => (await import("./keys.ts")).keys,
};
