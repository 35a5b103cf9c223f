/**
 * What vlan tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "vlan",
  kind: "interface",
  ipam: "required",
  makesInterface: true,
  network: { joins: "lower link" },
  start: { keys: () => ({}), asks: ["master", "vlanId"] },
};
