/**
 * Facts about ptp for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "ptp",
  kind: "interface",
  status: "stable",
  ipam: "required",
  refusesIpam: ["dhcp"],
  makesInterface: true,
  network: {
    joins: "node",
    hasGateway: () => true,
    routesByGateway: () => true,
  },
  differences: [{
    uses: /"ipMasq":true/i,
    text: "Go plugins up to 1.5 leave a rule of nftables after the way back",
  }],
  start: { rank: 2, keys: () => ({ ipMasq: true }) },
};
