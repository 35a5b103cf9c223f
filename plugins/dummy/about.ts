/**
 * Facts about dummy for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "dummy",
  kind: "interface",
  status: "stable",
  ipam: "required",
  refusesIpam: ["dhcp"],
  makesInterface: true,
  hostEnd: "none",
  network: { joins: "node" },
};
