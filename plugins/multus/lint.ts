/**
 * Mistakes in a configuration of multus.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { errorAt, type Problem } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  const { delegates, clusterNetwork } = conf;
  const hasDelegates = Array.isArray(delegates) && delegates.length > 0;
  return hasDelegates || clusterNetwork ? [] : [
    errorAt([], 'multus needs "clusterNetwork" or "delegates"'),
  ];
}
