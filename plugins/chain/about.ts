/**
 * What chain tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "chain",
  summary: "runs the plugins of a list in one process",
  kind: "meta",
  status: "stable",
  ipam: "possible",
  runs: {},
  hasDeepStatus: true,
};
