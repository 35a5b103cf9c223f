/**
 * Reads the machine code of the programs in `launcher/`.
 *
 * @module
 */

import type { Machine } from "../mkdenort/elf.ts";
import { readObject } from "../mkdenort/object.ts";

/** Returns the machine code of a program, which runs from the start of any page. */
export function readLauncher(
  program: "call" | "libc" | "testing/engine" | "testing/sender",
  machine: Machine,
): Uint8Array<ArrayBuffer> {
  const path = `../../launcher/objects/${program}.${machine}.txt`;
  return readObject(new URL(path, import.meta.url));
}
