/**
 * What is wrong with a configuration of vrf.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { errorAt, type Problem } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  return conf["vrfname"] ? [] : [errorAt(["vrfname"], "missing")];
}
