/**
 * Facts about bandwidth for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "bandwidth",
  kind: "chained",
  hostEnd: "needed",
  status: "stable",
  differences: [{
    uses: /"(un)?shapedSubnets"/i,
    text: "subnets are matched in the direction of the traffic",
  }],
  start: { keys: () => ({ capabilities: { bandwidth: true } }) },
  lint,
};
