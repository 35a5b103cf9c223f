/**
 * Mistakes in a configuration of sbr.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { type Problem, warningAt } from "../../cni/tools/problem.ts";

/** Numbers of the kernel's tables. Source: linux/rtnetlink.h. */
const KERNEL_TABLES: Readonly<Record<number, string>> = {
  253: "default",
  254: "main",
  255: "local",
};

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  const name = KERNEL_TABLES[Number(conf["table"])];
  return name === undefined ? [] : [
    warningAt(["table"], `the table ${name} of the container itself`),
  ];
}
