/**
 * What macvlan tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "macvlan",
  kind: "interface",
  ipam: "possible",
  makesInterface: true,
  network: { joins: "lower link" },
  start: { keys: () => ({ mode: "bridge" }), asks: ["master"] },
};
