/**
 * Metadata of multus for tools. Its calls never load this file.
 *
 * @module
 */

import type {
  BuiltInMetadata,
  Linted,
} from "../../metadata/plugin_metadata.ts";
import { runsMultus } from "./model/delegate.ts";
import { findLogLevel, MULTUS_LOG_LEVELS } from "./operations/operation_log.ts";
import { errorAt, type Problem, warningAt } from "../../metadata/problem.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "multus",
  kind: "meta",
  status: "stable",
  install: { onRequest: true },
  ipam: "possible",
  makesInterface: true,
  runs: { key: "delegates", areNetworks: true },
  traits: ["runs listed plugins"],
  otherTypes: ["multus-shim"],
  hasDeepStatus: true,
  lint,
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => (await import("./orphans.ts")).orphans,
};

/** See {@linkcode Lint}. */
function lint({ conf }: Linted): Problem[] {
  const { delegates, clusterNetwork } = conf;
  const hasDelegates = Array.isArray(delegates) && delegates.length > 0;
  const { logLevel } = conf;
  const own = (Array.isArray(delegates) ? delegates : []).flatMap(
    (delegate, index) =>
      runsMultus(delegate)
        ? [errorAt(["delegates", index], "multus would call itself")]
        : [],
  );
  return [
    ...own,
    ...hasDelegates || clusterNetwork
      ? []
      : [errorAt([], 'multus needs "clusterNetwork" or "delegates"')],
    ...typeof logLevel !== "string" || logLevel === "" ||
        findLogLevel(logLevel) !== undefined
      ? []
      : [
        warningAt(
          ["logLevel"],
          `expected ${MULTUS_LOG_LEVELS.join(", ")}, got "${logLevel}"`,
        ),
      ],
  ];
}
