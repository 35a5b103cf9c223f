/**
 * The key `conflictCheck`, for tools.
 *
 * @module
 */

import type { KeyDescription } from "../../../metadata/plugin_keys.ts";
import type { Linted } from "../../../metadata/plugin_metadata.ts";
import { keyWarningAt, type Problem } from "../../../metadata/problem.ts";
import { objectOf } from "../../../base/json/json.ts";

/** The key, as described on all pages except macvlan's. */
export const CONFLICT_CHECK_KEY = {
  text:
    "ADD [checks](macvlan.md#address-conflicts) that no other machine uses an address of the container.",
  type: "boolean",
  default: "`false`",
} as const satisfies KeyDescription;

/** Reports a check that has nothing to check. */
export function lintConflictCheck(
  { conf }: Pick<Linted, "conf">,
): Problem[] {
  const hasIpam = Boolean(objectOf(conf["ipam"])["type"]);
  return conf["conflictCheck"] === true && !hasIpam
    ? [keyWarningAt(["conflictCheck"], 'no effect without "ipam"', "no-effect")]
    : [];
}
