/**
 * What tools know about ipvlan. Its calls never load this file.
 *
 * @module
 */

import {
  type BuiltInMetadata,
  masterOf,
} from "../../metadata/plugin_metadata.ts";
import { linkNeed } from "../parts/link/link_needs.ts";
import { lintOnMaster } from "../parts/link/lint_on_master.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "ipvlan",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: "with ipam",
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
  lint: lintOnMaster,
  needs: [linkNeed("ipvlan", "ipvlan", { kind: "ipvlan" })],
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => ({
    finders: [
      (await import("../parts/link/orphan_access_links.ts")).findAccessLinks,
    ],
  }),
};
