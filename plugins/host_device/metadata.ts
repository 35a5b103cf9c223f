/**
 * Metadata of host-device for tools. Its calls never load this file.
 *
 * @module
 */

import { findValue } from "../../base/json/json.ts";
import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
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
      const name = findValue(conf, "device");
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
  orphans: async () => (await import("./orphans.ts")).orphans,
};
