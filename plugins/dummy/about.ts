/**
 * What dummy tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "dummy",
  summary: "creates an interface that is connected to nothing",
  kind: "interface",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/dummy",
  ipam: "required",
  refusesIpam: ["dhcp"],
  makesInterface: true,
  network: { joins: "node" },
};
