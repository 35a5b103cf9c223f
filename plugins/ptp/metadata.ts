/**
 * Metadata of ptp for tools. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { VETH } from "../parts/link/link_needs.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "ptp",
  kind: "interface",
  status: "stable",
  ipam: "required",
  traits: ["routes each address"],
  refusesIpam: "asks over link",
  makesInterface: true,
  network: {
    joins: "node",
    hasGateway: () => true,
    routesByGateway: () => true,
  },
  differences: [{
    uses: /"ipMasq":true/i,
    text: "after a rollback, Go plugins up to 1.5 leave an nftables rule",
  }],
  start: { rank: 2, keys: () => ({ ipMasq: true }) },
  needs: [VETH],
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => ({
    finders:
      (await import("../parts/firewall/masquerade/orphans.ts")).MASQUERADES,
  }),
};
