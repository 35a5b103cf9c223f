/**
 * What tools know about portmap. Its calls never load this file.
 *
 * @module
 */

import {
  type BuiltInMetadata,
  valueOf,
} from "../../metadata/plugin_metadata.ts";
import { lint } from "./lint.ts";
import { CONNTRACK } from "../parts/kernel_needs.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "portmap",
  kind: "chained",
  runsIptables: (conf) =>
    ["iptables", undefined, ""].includes(
      valueOf(conf, "backend") as string | undefined,
    ),
  status: "stable",
  differences: [{
    uses: /"backend":"nftables"/i,
    text: "after a rollback, the Go plugin leaves the rules",
  }],
  start: { keys: () => ({ capabilities: { portMappings: true } }) },
  lint,
  needs: [CONNTRACK],
  keys: async () => (await import("./keys.ts")).keys,
  leftovers: async () => (await import("./leftovers.ts")).leftovers,
};
