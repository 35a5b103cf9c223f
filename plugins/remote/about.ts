/**
 * What remote tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "remote",
  summary: "has a daemon of another program attach the container",
  kind: "meta",
  status: "experimental",
  runs: {},
  passesOn: true,
  hasDeepStatus: true,
};
