/**
 * What tuning tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "tuning",
  kind: "chained",
  status: "stable",
  mayRepeat: true,
};
