/**
 * What ptp tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "ptp",
  kind: "interface",
  ipam: "required",
  refusesIpam: ["dhcp"],
  makesInterface: true,
  network: { joins: "node", hasGateway: () => true },
  start: { keys: () => ({ ipMasq: true }) },
};
