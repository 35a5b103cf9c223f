/**
 * Compiles the programs of `launcher/`: code that runs in an executable before what
 * is in it. Their machine code is kept as text, with its disassembly, so that a build
 * needs no compiler and a change can be read.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { describeError } from "../base/error.ts";
import { answerHelp, readOptions } from "./command_line.ts";
import { formatCallFormat } from "./launcher/call_format.ts";
import {
  compileObject,
  findMissingTools,
  listObjects,
} from "./launcher/objects.ts";
import { ROOT } from "./project.ts";

const HELP =
  `Compile the programs of launcher/, and write their machine code as text.

Usage: deno task launcher [--symbols DIRECTORY]

It needs clang-14, lld-14 and llvm-14.

  --symbols DIRECTORY  also leave ELF files with symbols, for a debugger`;

if (import.meta.main) {
  answerHelp(HELP);
  try {
    const { symbols } = readOptions({ symbols: { type: "string" } });
    const missing = findMissingTools();
    if (missing.length > 0) {
      throw new Error(`There is no ${missing.join(", ")}`);
    }
    const header = `${ROOT}launcher/call_format.h`;
    await Deno.writeTextFile(header, formatCallFormat());
    for (const object of listObjects()) {
      const { program, machine } = object;
      const file = symbols && `${symbols}/${program}.${machine}.elf`;
      if (file) await Deno.mkdir(dirname(file), { recursive: true });
      const text = await compileObject(object, file);
      await Deno.writeTextFile(ROOT + object.path, text);
      console.log(object.path);
    }
  } catch (error) {
    console.error(describeError(error));
    Deno.exit(1);
  }
}
