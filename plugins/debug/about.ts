/**
 * What debug tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "debug",
  kind: "meta",
  status: "stable",
  install: { onRequest: true },
  ipam: "possible",
  runs: {},
  hasDeepStatus: true,
};
