/**
 * Facts about remote for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "remote",
  kind: "meta",
  status: "experimental",
  runs: {},
  passesOn: true,
  hasDeepStatus: true,
};
