/**
 * Memory of a process that lives for long.
 *
 * @module
 */

import { openSymbols, PADDING, UNCOMPILED } from "./call.ts";

/** Symbols of a process that lives for long. */
const MEMORY_SYMBOLS = {
  malloc_trim: { parameters: ["usize", UNCOMPILED], result: "i32" },
} as const;

let memory:
  | Deno.DynamicLibrary<typeof MEMORY_SYMBOLS>["symbols"]
  | undefined;

/** Gives memory back that the C library keeps for later, malloc_trim(3). It takes some ms. */
export function trimMemory(): void {
  memory ??= openSymbols(MEMORY_SYMBOLS);
  memory.malloc_trim(0n, PADDING);
}
