/**
 * What tools know about host-device. Its calls never load this file.
 *
 * @module
 */

import {
  type BuiltInMetadata,
  valueOf,
} from "../../metadata/plugin_metadata.ts";
import { lint } from "./lint.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "host-device",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
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
  keys: async () => (await import("./keys.ts")).keys,
  leftovers: async () => (await import("./leftovers.ts")).leftovers,
};
