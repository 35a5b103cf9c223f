/**
 * Facts about host-local for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { lint, listRanges, listSubnets } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "host-local",
  kind: "ipam",
  status: "stable",
  differences: [{
    uses: /"ips":true/,
    text: "a second ADD with a requested address is refused",
  }],
  lint,
  ranges: listRanges,
  subnets: listSubnets,
};
