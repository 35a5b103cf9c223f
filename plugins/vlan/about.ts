/**
 * Facts about vlan for tools.
 *
 * @module
 */

import { type About, masterOf } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "vlan",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  hostEnd: "none",
  network: {
    joins: "lower link",
    lowerLink: (conf) => masterOf(conf, "shared"),
  },
  differences: [{
    uses: /"(resolvConf|dns)"/i,
    text: "the IPAM plugin's DNS is in the result",
  }],
  start: { rank: 5, keys: () => ({}), asks: ["master", "vlanId"] },
  lint,
};
