/**
 * Facts about ipvlan for tools.
 *
 * @module
 */

import { type About, masterOf } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "ipvlan",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: "with ipam",
  hostEnd: "none",
  network: {
    joins: "lower link",
    lowerLink: (conf) => masterOf(conf, "receives"),
  },
  differences: [{
    uses: /"mtu"(?=:[1-9])/i,
    text: "an MTU above the master's is refused",
  }, {
    uses: /"(resolvConf|dns)"/i,
    text: "the IPAM plugin's DNS is in the result",
  }],
  start: { rank: 4, keys: () => ({ mode: "l2" }), asks: ["master"] },
};
