/**
 * What tap tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { NetNs } from "../../ffi/netns.ts";
import { createTap } from "../../ffi/tun.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "tap",
  summary: "creates a tap device, for virtual machines",
  kind: "interface",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/tap",
  ipam: "possible",
  makesInterface: true,
  needs: [{
    name: "tap",
    module: "tun",
    probe: (path) => {
      using netns = NetNs.open(path);
      createTap(netns, { name: "p-tap", isMultiQueue: false });
    },
  }],
};
