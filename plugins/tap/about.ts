/**
 * Facts about tap for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "tap",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  hostEnd: "none",
};
