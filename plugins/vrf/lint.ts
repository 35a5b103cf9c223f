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
  if (vrfname === "lo") {
    const problem = "the container's loopback has this name, and is no VRF";
    return [errorAt(["vrfname"], problem)];
  }
  try {
    checkInterfaceName(String(vrfname));
    return [];
  } catch {
    const problem = `Cannot use "${vrfname}" as the name of an interface`;
    return [errorAt(["vrfname"], problem)];
  }
}
