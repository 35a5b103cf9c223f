/**
 * Mistakes in a configuration of multus.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { runsMultus } from "./model/delegate.ts";
import { findLogLevel, LOG_LEVELS } from "./log/operation_log.ts";
import { errorAt, type Problem, warningAt } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
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
          `expected ${LOG_LEVELS.join(", ")}, got "${logLevel}"`,
        ),
      ],
  ];
}
