/**
 * What macvlan tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "macvlan",
  summary: "gives the container an interface with its own MAC on a host link",
  kind: "interface",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/macvlan",
  ipam: "possible",
  makesInterface: true,
  network: { joins: "lower link" },
  start: { keys: () => ({ mode: "bridge" }), asks: ["master"] },
};
