/**
 * Mistakes in a configuration of debug.
 *
 * @module
 */

import { dirname, normalize } from "@std/path/posix";
import type { Linted } from "../../cni/tools/about.ts";
import { errorAt, type Problem } from "../../cni/tools/problem.ts";

/** The directory and the names of files that runtimes read as networks. */
const CONF_DIR = "/etc/cni/net.d", CONF_NAME = /\.(conf|conflist|json)$/;

/** See {@linkcode Lint}. */
export function lint({ conf: { cniOutput } }: Linted): Problem[] {
  if (typeof cniOutput !== "string") return [];
  const path = normalize(cniOutput);
  if (dirname(path) !== CONF_DIR || !CONF_NAME.test(path)) return [];
  return [errorAt(
    ["cniOutput"],
    `runtimes read each file of ${CONF_DIR} with this ending as a network, and ` +
      "may find none if one is malformed: name a file elsewhere",
  )];
}
