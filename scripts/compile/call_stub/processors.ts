/**
 * The processors that machine code is written for.
 *
 * @module
 */

import type { Machine } from "../../mkdenort/elf.ts";
import { Arm64Processor } from "./aarch64.ts";
import { X86Processor } from "./x86_64.ts";

/** The processors. */
export const MACHINES: readonly Machine[] = ["x86_64", "aarch64"];

/**
 * Creates what writes code for a processor.
 *
 * @param origin Address of the first instruction
 */
export function createProcessor(
  machine: Machine,
  origin: number,
): X86Processor | Arm64Processor {
  return machine === "x86_64"
    ? new X86Processor(origin)
    : new Arm64Processor(origin);
}
