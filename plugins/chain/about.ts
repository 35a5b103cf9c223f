/**
 * Facts about chain for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "chain",
  kind: "meta",
  status: "stable",
  ipam: "possible",
  runs: {},
  hasDeepStatus: true,
};
