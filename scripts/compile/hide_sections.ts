/**
 * Takes the section headers from an executable, which only tools read.
 *
 * `strip`, `objcopy` and packagers that run them write a file anew by its
 * sections, and leave out what is in none of them: the attached program, and the
 * code that was added. Such a file crashes at its start. Without section headers
 * they refuse the file, and leave it as it is.
 *
 * Source: elf(5), `e_shoff`, `e_shnum`, `e_shstrndx`; binutils objcopy.c
 * `copy_object`.
 *
 * @module
 */

import { HeaderField, viewOf, writeU64 } from "../mkdenort/elf.ts";

/** Changes an executable in place. */
export function hideSections(bytes: Uint8Array): void {
  const view = viewOf(bytes);
  writeU64(view, HeaderField.sectionHeadersOffset, 0);
  view.setUint16(HeaderField.sectionHeaderCount, 0, true);
  view.setUint16(HeaderField.sectionNamesIndex, 0, true);
}

/** Changes the executable in a file. */
export async function hideSectionsInFile(path: string): Promise<void> {
  const bytes = await Deno.readFile(path);
  hideSections(bytes);
  await Deno.writeFile(path, bytes);
}
