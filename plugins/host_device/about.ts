/**
 * Facts about host-device for tools.
 *
 * @module
 */

import { type About, valueOf } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "host-device",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  hostEnd: "none",
  network: {
    joins: "lower link",
    lowerLink: (conf) => {
      const name = valueOf(conf, "device");
      return typeof name === "string" && name !== ""
        ? { name, key: "device", use: "moved" }
        : undefined;
    },
  },
  differences: [{
    uses: /"(resolvConf|dns)"/i,
    text: "the IPAM plugin's DNS is in the result",
  }, {
    uses: /"hwaddr"(?=:"(..:){19})/i,
    text: "InfiniBand is not supported",
  }],
  lint,
};
