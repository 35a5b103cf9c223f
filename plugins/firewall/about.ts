/**
 * What firewall tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "firewall",
  kind: "chained",
  status: "stable",
  network: { letsThrough: true },
  differences: [{
    text: "the nftables table inet cni_firewall stays after the way back",
  }],
};
