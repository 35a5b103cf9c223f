/**
 * Takes the section headers from an executable, which only tools read.
 *
 * Reason: `strip`, `objcopy` and packagers that run them write a file anew by its
 * sections, and leave out what is in none of them: the attached program, and the
 * code that was added. Such a file crashes at its start. Without section headers
 * they refuse the file, and leave it as it is.
 * Gain: no time; a package of a stripped file starts.
 * Off: `--no-hide-sections`.
 *
 * Source: elf(5), `e_shoff`, `e_shnum`, `e_shstrndx`; binutils objcopy.c
 * `copy_object`.
 *
 * @module
 */

import { HeaderField, viewOf, writeU64 } from "../mkdenort/elf.ts";

/** Returns a copy of an executable without section headers. */
export function hideSections(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const result = Uint8Array.from(bytes);
  const view = viewOf(result);
  writeU64(view, HeaderField.sectionHeadersOffset, 0);
  view.setUint16(HeaderField.sectionHeaderCount, 0, true);
  view.setUint16(HeaderField.sectionNamesIndex, 0, true);
  return result;
}
