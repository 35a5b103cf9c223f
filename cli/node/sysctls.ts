/**
 * Kernel parameters of a namespace, and their names.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { inNetns } from "../../ffi/netns.ts";
import { readSysctl } from "../../ffi/sysctl.ts";
import type { NodeReader } from "./node_reader.ts";

/** Reads a parameter of a namespace; undefined if the kernel does not have it. */
export function readSysctlOf(
  { netns }: Pick<NodeReader["host"], "netns">,
  key: string,
): string | undefined {
  return inNetns(netns, () => ifPossible(() => readSysctl(key)));
}

/** Formats a parameter as sysctl(8) does. Names of links may have dots. */
export function nameOfSysctl(key: string): string {
  return key.includes(".") ? key : key.replaceAll("/", ".");
}
