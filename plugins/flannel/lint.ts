/**
 * Mistakes in a configuration of flannel.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { objectOf } from "../../base/json/json.ts";
import { errorAt, type Problem } from "../../cni/tools/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  return objectOf(conf["delegate"])["type"] === "flannel"
    ? [errorAt(["delegate", "type"], "flannel would call itself")]
    : [];
}
