/**
 * Mistakes in configurations of slaac.
 *
 * @module
 */

import type { Linted } from "../../metadata/plugin_metadata.ts";
import { keyWarningAt, type Problem } from "../../metadata/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  return conf["conflictCheck"] !== true ? [] : [
    keyWarningAt(
      ["conflictCheck"],
      "no effect: the kernel itself checks addresses from router advertisements",
      "no-effect",
    ),
  ];
}
