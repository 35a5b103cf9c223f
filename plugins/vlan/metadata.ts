/**
 * Metadata of vlan for tools. Its calls never load this file.
 *
 * @module
 */

import {
  type BuiltInMetadata,
  type Linted,
  masterOf,
  SEGMENT_OF_MASTER,
} from "../../metadata/plugin_metadata.ts";
import { lintConflictCheck } from "../parts/address/conflict_check_key.ts";
import { linkNeed } from "../parts/link/link_needs.ts";
import { type Problem, warningAt } from "../../metadata/problem.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "vlan",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  network: {
    joins: "lower link",
    segment: { ...SEGMENT_OF_MASTER, vlan: "vlanId" },
    lowerLink: (conf) => masterOf(conf, "shared"),
  },
  differences: [{
    uses: /"(resolvConf|dns)"/i,
    text: "the IPAM plugin's DNS is in the result",
  }],
  start: { rank: 5, keys: () => ({}), asks: ["master", "vlanId"] },
  lint,
  needs: [linkNeed("vlan", "8021q", { kind: "vlan", data: { id: 5 } })],
  keys: async () => (await import("./keys.ts")).keys,
};

/** See {@linkcode Lint}. */
function lint(linted: Linted): Problem[] {
  const { vlanId } = linted.conf;
  return [
    ...vlanId !== undefined && vlanId !== null ? [] : [
      warningAt(
        ["vlanId"],
        "missing, which means 0: frames have a priority tag and no VLAN",
      ),
    ],
    ...lintConflictCheck(linted),
  ];
}
