/**
 * What tools know about macvlan. Its calls never load this file.
 *
 * @module
 */

import {
  type BuiltInMetadata,
  masterOf,
  SEGMENT_OF_MASTER,
} from "../../metadata/plugin_metadata.ts";
import { linkNeed } from "../parts/link/link_needs.ts";
import { lintOnMaster } from "../parts/link/lint_on_master.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "macvlan",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  network: {
    joins: "lower link",
    segment: SEGMENT_OF_MASTER,
    lowerLink: (conf) => masterOf(conf, "receives"),
  },
  differences: [{
    uses: /"(resolvConf|dns)"/i,
    text: "the IPAM plugin's DNS is in the result",
  }],
  start: { rank: 3, keys: () => ({ mode: "bridge" }), asks: ["master"] },
  lint: lintOnMaster,
  needs: [linkNeed("macvlan", "macvlan", { kind: "macvlan" })],
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => ({
    finders: [
      (await import("../parts/link/orphan_access_links.ts")).findAccessLinks,
    ],
  }),
};
