/**
 * Facts about loopback for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "loopback",
  kind: "interface",
  status: "stable",
};
