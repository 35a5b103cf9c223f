/**
 * What vlan tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "vlan",
  summary: "gives the container a VLAN of a host link",
  kind: "interface",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/vlan",
  ipam: "required",
  makesInterface: true,
  network: { joins: "lower link" },
  start: { keys: () => ({}), asks: ["master", "vlanId"] },
};
