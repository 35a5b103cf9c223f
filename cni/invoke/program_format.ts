/**
 * Tells from a file's first bytes whether execve(2) can run it.
 *
 * This is checked before a file is started. If execve(2) refuses a file, Deno
 * (through execvp(3)) hands it to /bin/sh as a script. An empty file would then
 * always succeed, and a program for another machine would run as shell garbage.
 *
 * @module
 */

import { OWN_EXECUTABLE } from "../../base/files/same_file.ts";

/**
 * - `program`: looks like a program
 * - `incomplete`: part of a program; another process might still be writing it
 * - `foreign`: a program for a different architecture
 * - `other`: not a program, such as text without `#!`
 */
export type ProgramFormat = "program" | "incomplete" | "foreign" | "other";

/** Classifies a file. A file that cannot be read counts as a program. */
export function readFormat(path: string): ProgramFormat {
  const [header, own] = [path, OWN_EXECUTABLE].map(findHeader);
  if (header === undefined || own === undefined) return "program";
  const { magic, machine, size } = header;
  if (magic.startsWith("#!")) return "program";
  if (isBeginning(magic)) return "incomplete";
  if (magic !== ELF_MAGIC) return "other";
  if (size < HEADER_BYTES) return "incomplete";
  if (machine !== own.machine && machine !== ALSO_RUNS[own.machine]) {
    return hasEmulators() ? "program" : "foreign";
  }
  return header.endOfTable <= size ? "program" : "incomplete";
}

const ELF_MAGIC = "\x7fELF";

/**
 * Reports whether the file looks incomplete: it is empty, all zeros, or too short
 * to classify.
 */
function isBeginning(magic: string): boolean {
  const isCutOff = magic.length < ELF_MAGIC.length &&
    [ELF_MAGIC, "#!"].some((whole) => whole.startsWith(magic));
  return isCutOff || [...magic].every((byte) => byte === "\0");
}

/** The ELF header. */
interface Header {
  /** The first four bytes, or fewer if the file is shorter. */
  readonly magic: string;
  /** The processor, such as `EM_X86_64`. */
  readonly machine: number;
  /** End of the segment table, which the kernel needs. */
  readonly endOfTable: number;
  /** File size in bytes. */
  readonly size: number;
}

/** Source: include/uapi/linux/elf.h `Elf64_Ehdr`. */
const HEADER_BYTES = 64;
const CLASS_AT = 4, MACHINE_AT = 18, CLASS_64 = 2;
/** Positions of the table's offset, entry size and entry count, by offset width. */
const TABLE_AT = { 4: [28, 42, 44], 8: [32, 54, 56] } as const;

function findHeader(path: string): Header | undefined {
  try {
    return readHeader(path);
  } catch {
    return undefined;
  }
}

function readHeader(path: string): Header {
  const bytes = new Uint8Array(HEADER_BYTES);
  using file = Deno.openSync(path);
  const length = file.readSync(bytes) ?? 0;
  const { size } = file.statSync();
  const width = bytes[CLASS_AT] === CLASS_64 ? 8 : 4;
  const [tableAt, entryAt, countAt] = TABLE_AT[width];
  return {
    magic: String.fromCharCode(...bytes.subarray(0, Math.min(length, 4))),
    machine: readNumber(bytes, MACHINE_AT, 2),
    endOfTable: readNumber(bytes, tableAt, width) +
      readNumber(bytes, entryAt, 2) * readNumber(bytes, countAt, 2),
    size,
  };
}

/** Reads a little-endian number. */
function readNumber(bytes: Uint8Array, at: number, width: number): number {
  return bytes.subarray(at, at + width)
    .reduceRight((number, byte) => number * 256 + byte, 0);
}

/** The 32-bit processors that 64-bit kernels can emulate: x86 and Arm. Source: linux/elf-em.h. */
const ALSO_RUNS: Readonly<Record<number, number>> = { 62: 3, 183: 40 };

/** Reports whether programs for other machines may be runnable (binfmt_misc). */
function hasEmulators(): boolean {
  try {
    return [...Deno.readDirSync("/proc/sys/fs/binfmt_misc")]
      .some(({ name }) => !["register", "status"].includes(name));
  } catch {
    return false;
  }
}
