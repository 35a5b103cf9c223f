/**
 * What a file is to execve(2), as far as its first bytes tell.
 *
 * It is asked before a file is started: what execve(2) refuses Deno, by
 * execvp(3), gives to /bin/sh as a script. A file that a crash has left empty
 * would succeed at everything, and of a program for another machine the shell
 * would do whatever its bytes happen to say.
 *
 * @module
 */

/**
 * - `program`: one, as far as can be told
 * - `unfinished`: one that may still be being written
 * - `foreign`: one for another machine
 * - `other`: none, such as text without `#!`
 */
export type ProgramFormat = "program" | "unfinished" | "foreign" | "other";

/** This process's own, which this machine must be able to run. */
const OWN_EXECUTABLE = "/proc/self/exe";

/** Tells what a file is; one that may not be read may be a program. */
export function readFormat(path: string): ProgramFormat {
  const [header, own] = [path, OWN_EXECUTABLE].map(findHeader);
  if (header === undefined || own === undefined) return "program";
  const { magic, machine, size } = header;
  if (magic.startsWith("#!")) return "program";
  if (isBeginning(magic)) return "unfinished";
  if (magic !== ELF_MAGIC) return "other";
  if (size < HEADER_BYTES) return "unfinished";
  if (machine !== own.machine && machine !== ALSO_RUNS[own.machine]) {
    return hasEmulators() ? "program" : "foreign";
  }
  return header.endOfTable <= size ? "program" : "unfinished";
}

const ELF_MAGIC = "\x7fELF";

/**
 * Says whether more is to come: nothing is there yet, or only the room for it,
 * or less than tells what it will be.
 */
function isBeginning(magic: string): boolean {
  const isCutOff = magic.length < ELF_MAGIC.length &&
    [ELF_MAGIC, "#!"].some((whole) => whole.startsWith(magic));
  return isCutOff || [...magic].every((byte) => byte === "\0");
}

/** What the kernel looks at first. */
interface Header {
  /** The first four bytes, or as many as there are. */
  readonly magic: string;
  /** Which processor it is for: `EM_X86_64`. */
  readonly machine: number;
  /** Where the table of segments ends, without which the kernel loads nothing. */
  readonly endOfTable: number;
  /** The file's, in bytes. */
  readonly size: number;
}

/** Source: include/uapi/linux/elf.h `Elf64_Ehdr`. */
const HEADER_BYTES = 64;
const CLASS_AT = 4, MACHINE_AT = 18, CLASS_64 = 2;
/** Where the table's offset, the size of an entry and their number are, by the width of an offset. */
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

/** Reads a number as the processors write it that we run on, in little endian. */
function readNumber(bytes: Uint8Array, at: number, width: number): number {
  return bytes.subarray(at, at + width)
    .reduceRight((number, byte) => number * 256 + byte, 0);
}

/** The 32-bit processors that 64-bit kernels stand for: x86 and Arm. Source: linux/elf-em.h. */
const ALSO_RUNS: Readonly<Record<number, number>> = { 62: 3, 183: 40 };

/** Says whether there may be something that runs programs for other machines. */
function hasEmulators(): boolean {
  try {
    return [...Deno.readDirSync("/proc/sys/fs/binfmt_misc")]
      .some(({ name }) => !["register", "status"].includes(name));
  } catch {
    return false;
  }
}
