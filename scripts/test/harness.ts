/**
 * The imports of test files from what serves only tests.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { isTest } from "../lint/project_files.ts";

/** Reads a file of the project by its path from the root. */
export type ReadSource = (path: string) => string;

/** A relative import, of values or types, at the start of a line. */
const IMPORT = /^(?:import|export|\}).*?\bfrom\s+"(\.[^"]+)"/gm;

/** Lists a test file and the modules for tests that it imports. */
export function listHarness(path: string, read: ReadSource): string[] {
  const found = new Set([path]);
  for (const one of found) {
    for (const [, specifier = ""] of read(one).matchAll(IMPORT)) {
      const imported = join(dirname(one), specifier);
      if (isTest(imported)) found.add(imported);
    }
  }
  return [...found];
}

/** Reports whether a file starts executables: their directory is a variable. */
export function needsExecutables(path: string, read: ReadSource): boolean {
  return listHarness(path, read).some((one) => read(one).includes("CNI_BIN"));
}
