/**
 * What dhcp tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "dhcp",
  summary: "leases addresses from a DHCP server, by a daemon",
  kind: "ipam",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/ipam/dhcp",
};
