/**
 * Mistakes in a configuration of vlan.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { type Problem, warningAt } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf: { vlanId } }: Linted): Problem[] {
  return vlanId !== undefined && vlanId !== null ? [] : [
    warningAt(
      ["vlanId"],
      "missing, which means 0: frames have a priority tag and no VLAN",
    ),
  ];
}
