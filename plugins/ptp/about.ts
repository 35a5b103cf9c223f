/**
 * What ptp tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "ptp",
  summary: "connects each container to the host with a veth pair",
  kind: "interface",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/ptp",
  ipam: "required",
  refusesIpam: ["dhcp"],
  makesInterface: true,
  network: { joins: "node", hasGateway: () => true },
  start: { keys: () => ({ ipMasq: true }) },
};
