/**
 * What is wrong with a configuration of vrf.
 *
 * @module
 */

import type { Linted } from "../../cni/about.ts";
import { errorAt, type Problem } from "../../cni/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  return conf["vrfname"] ? [] : [errorAt(["vrfname"], "missing")];
}
