/**
 * The features of the kernel that tap needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { NetNs } from "../../ffi/netns.ts";
import { createTap } from "../../ffi/tun.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "tap",
  features: [{
    name: "tap",
    module: "tun",
    probe: (path) => {
      using netns = NetNs.open(path);
      createTap(netns, { name: "p-tap", isMultiQueue: false });
    },
  }],
};
