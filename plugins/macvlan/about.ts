/**
 * Facts about macvlan for tools.
 *
 * @module
 */

import { type About, masterOf } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "macvlan",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  hostEnd: "none",
  network: {
    joins: "lower link",
    lowerLink: (conf) => masterOf(conf, "receives"),
  },
  differences: [{
    uses: /"(resolvConf|dns)"/i,
    text: "the IPAM plugin's DNS is in the result",
  }],
  start: { rank: 3, keys: () => ({ mode: "bridge" }), asks: ["master"] },
};
