/**
 * What the header of an ELF file shows of a program.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";

/** Machines by their number in an ELF header. Source: linux/elf-em.h. */
const MACHINES: Readonly<Record<number, string>> = {
  3: "i386",
  8: "mips",
  20: "ppc",
  21: "ppc64",
  22: "s390x",
  40: "arm",
  62: "x86_64",
  183: "aarch64",
  243: "riscv64",
  258: "loongarch64",
};
/** Where the machine's number is. Source: include/uapi/linux/elf.h `e_machine`. */
const MACHINE_AT = 18, HEADER_BYTES = 4096;

/** Names the machine that a program is for; undefined for anything but a program. */
export function findMachine(path: string): string | undefined {
  const bytes = readHead(path);
  if (bytes === undefined || !isElf(bytes)) return undefined;
  const number = (bytes[MACHINE_AT] ?? 0) + (bytes[MACHINE_AT + 1] ?? 0) * 256;
  return MACHINES[number] ?? `machine ${number}`;
}

/** Reports whether a program was built by Go, which leaves a note at its beginning. */
export function isBuiltByGo(path: string): boolean {
  const bytes = readHead(path);
  return bytes !== undefined && isElf(bytes) &&
    new TextDecoder("latin1").decode(bytes).includes("Go\0\0");
}

function isElf(bytes: Uint8Array): boolean {
  return new TextDecoder("latin1").decode(bytes.subarray(0, 4)) === "\x7fELF";
}

function readHead(path: string): Uint8Array | undefined {
  return ifPossible(() => {
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(HEADER_BYTES);
    return bytes.subarray(0, file.readSync(bytes) ?? 0);
  });
}
