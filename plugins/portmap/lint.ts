/**
 * Mistakes in a configuration of portmap, and keys without effect.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { errorAt, type Problem, warningAt } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf, capabilities }: Linted): Problem[] {
  const marks = ["externalSetMarkChain", "markMasqBit"]
    .filter((key) => conf[key] !== undefined);
  const problem = "Cannot specify externalSetMarkChain and markMasqBit";
  const idle = 'portmap maps nothing: the capability "portMappings" is missing';
  return [
    ...capabilities["portMappings"] ? [] : [warningAt([], idle)],
    ...marks.length < 2 ? [] : [errorAt(["externalSetMarkChain"], problem)],
  ];
}
