/**
 * What tuning tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "tuning",
  summary: "sets sysctls, MAC, MTU and other properties of the interface",
  kind: "chained",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/meta/tuning",
  mayRepeat: true,
};
