/**
 * What tools know about tap. Its calls never load this file.
 *
 * @module
 */

import type { Facts } from "../../cni/tools/about.ts";
import { NetNs } from "../../ffi/netns.ts";
import { createTap } from "../../ffi/tun.ts";

/** See {@linkcode Facts}. */
export const facts: Facts = {
  type: "tap",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  hostEnd: "none",
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
