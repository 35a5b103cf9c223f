/**
 * What firewall tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "firewall",
  summary: "lets the container's traffic through the host's firewall",
  kind: "chained",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/meta/firewall",
  network: { letsThrough: true },
};
