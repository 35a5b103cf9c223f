/**
 * What tools know about portmap. Its calls never load this file.
 *
 * @module
 */

import {
  type BuiltInMetadata,
  hasIptablesBackend,
} from "../../metadata/plugin_metadata.ts";
import { lint } from "./lint.ts";
import { CONNTRACK } from "../parts/firewall/conntrack_need.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "portmap",
  kind: "chained",
  runsIptables: hasIptablesBackend,
  status: "stable",
  differences: [{
    uses: /"backend":"nftables"/i,
    text: "after a rollback, the Go plugin leaves the rules",
  }],
  start: { keys: () => ({ capabilities: { portMappings: true } }) },
  lint,
  needs: [CONNTRACK],
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => (await import("./orphans.ts")).orphans,
};
