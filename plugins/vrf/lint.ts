/**
 * Mistakes in a configuration of vrf.
 *
 * @module
 */

import { checkInterfaceName } from "../../cni/call/args.ts";
import type { Linted } from "../../cni/tools/about.ts";
import { errorAt, type Problem } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf: { vrfname } }: Linted): Problem[] {
  if (!vrfname) return [errorAt(["vrfname"], "missing")];
  try {
    checkInterfaceName(String(vrfname));
    return [];
  } catch {
    const problem = `Cannot use "${vrfname}" as the name of an interface`;
    return [errorAt(["vrfname"], problem)];
  }
}
