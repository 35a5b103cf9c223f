/**
 * What tap tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "tap",
  summary: "creates a tap device, for virtual machines",
  kind: "interface",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/tap",
  ipam: "possible",
  makesInterface: true,
};
