/**
 * What tools know about ipvlan. Its calls never load this file.
 *
 * @module
 */

import { objectOf } from "../../base/json/json.ts";
import {
  type BuiltInMetadata,
  type Linted,
  masterOf,
  SEGMENT_OF_MASTER,
} from "../../metadata/plugin_metadata.ts";
import { linkNeed } from "../parts/link/link_needs.ts";
import { errorAt, type Problem } from "../../metadata/problem.ts";
import { typeHas } from "../parts/traits.ts";
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
    segment: SEGMENT_OF_MASTER,
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
  lint,
  needs: [linkNeed("ipvlan", "ipvlan", { kind: "ipvlan" })],
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => ({
    finders: [
      (await import("../parts/link/orphan_access_links.ts")).findAccessLinks,
    ],
  }),
};

/** See {@linkcode Lint}. */
function lint(linted: Linted): Problem[] {
  const { mode, ipam } = linted.conf;
  const isRouted = mode === "l3" || mode === "l3s";
  return [
    ...lintOnMaster(linted),
    ...isRouted && typeHas(objectOf(ipam)["type"], "needs router")
      ? [
        errorAt(
          ["mode"],
          `no router advertisement arrives in mode ${mode}: use l2`,
        ),
      ]
      : [],
  ];
}
