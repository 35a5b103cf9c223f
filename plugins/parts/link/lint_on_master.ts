/**
 * Keys without effect in configurations of macvlan and ipvlan.
 *
 * @module
 */

import type { Linted } from "../../../metadata/plugin_metadata.ts";
import { keyWarningAt, type Problem } from "../../../metadata/problem.ts";
import { lintConflictCheck } from "../address/conflict_check_key.ts";

/** See {@linkcode Lint}. */
export function lintOnMaster(linted: Pick<Linted, "conf">): Problem[] {
  const { conf } = linted;
  const isIdle = conf["hostAddresses"] !== undefined &&
    conf["hostAccess"] !== true;
  return [
    ...lintConflictCheck(linted),
    ...isIdle
      ? [
        keyWarningAt(
          ["hostAddresses"],
          'no effect without "hostAccess": true',
          "no-effect",
        ),
      ]
      : [],
  ];
}
