/**
 * What ipvlan tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "ipvlan",
  kind: "interface",
  ipam: "possible",
  makesInterface: "with ipam",
  network: { joins: "lower link" },
  start: { keys: () => ({ mode: "l2" }), asks: ["master"] },
};
