/**
 * What has no effect in a configuration of portmap.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { type Problem, warningAt } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ capabilities }: Linted): Problem[] {
  if (capabilities["portMappings"]) return [];
  return [
    warningAt(
      [],
      'portmap maps nothing: the capability "portMappings" is missing',
    ),
  ];
}
