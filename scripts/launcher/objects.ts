/**
 * The machine code of the programs in `launcher/`: how it is compiled, and the text
 * that it is kept as.
 *
 * @module
 */

import { hasCommand } from "../../testing/capabilities.ts";
import { ROOT, run } from "../project.ts";
import type { Machine } from "../mkdenort/elf.ts";

/** The version of LLVM that compiles: Debian 12's. Others give other bytes. */
const LLVM = "14";

const TOOLS = {
  compiler: `clang-${LLVM}`,
  linker: `ld.lld-${LLVM}`,
  copier: `llvm-objcopy-${LLVM}`,
  disassembler: `llvm-objdump-${LLVM}`,
} as const;

/** What compiles. */
export const COMPILER: string = TOOLS.compiler;

/** The processors. */
export const MACHINES: readonly Machine[] = ["x86_64", "aarch64"];

/** The programs, and where their machine code is: from the top of the project. */
const PROGRAMS = {
  "call": "launcher/objects/call",
  "libc": "launcher/objects/libc",
  "denort": "scripts/mkdenort/denort",
  "testing/engine": "launcher/objects/testing/engine",
  "testing/sender": "launcher/objects/testing/sender",
} as const;

/** A program of `launcher/`. */
export type Program = keyof typeof PROGRAMS;

/** A program for a processor. */
export interface LauncherObject {
  readonly program: Program;
  readonly machine: Machine;
  /** The file that has its machine code, from the top of the project. */
  readonly path: string;
}

/** Lists what there is to compile. */
export function listObjects(): LauncherObject[] {
  return Object.entries(PROGRAMS).flatMap(([program, path]) =>
    MACHINES.map((machine) => ({
      program: program as Program,
      machine,
      path: `${path}.${machine}.txt`,
    }))
  );
}

/** Lists the tools that this machine lacks to compile. */
export function findMissingTools(): string[] {
  return Object.values(TOOLS).filter((tool) => !hasCommand(tool));
}

/** What each program is compiled with. */
const SHARED = ["system.h", "flat.ld"];
/** What call.c and programs that include it are compiled with. */
const CALL_SOURCES = ["call.c", "call_format.h"];

/** Returns the SHA-256 of what a program is compiled from, in hexadecimal digits. */
export async function digestSources(program: Program): Promise<string> {
  const own = `${program}.c`;
  const source = await Deno.readTextFile(`${ROOT}launcher/${own}`);
  const isCall = program === "call" || source.includes("call.c");
  const files = [own, ...SHARED, ...(isCall ? CALL_SOURCES : [])];
  const texts = await Promise.all(
    files.map((name) => Deno.readTextFile(`${ROOT}launcher/${name}`)),
  );
  const bytes = new TextEncoder().encode(texts.join("\0"));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

/** Flags of the compiler. */
const FLAGS: readonly string[] = [
  ...["-std=c11", "-Wall", "-Wextra", "-Werror", "-gdwarf-4"],
  ...["-Os", "-ffreestanding", "-fPIC", "-fno-jump-tables"],
  ...["-fno-stack-protector", "-fno-asynchronous-unwind-tables"],
  ...["-fno-ident", "-fno-inline", "-fno-strict-aliasing"],
  // The paths of this checkout must not be in it.
  `-ffile-prefix-map=${ROOT}=`,
];

/** What the small code model needs pages for, the tiny one does without. */
const MACHINE_FLAGS: Readonly<Record<Machine, readonly string[]>> = {
  x86_64: ["--target=x86_64-linux-gnu"],
  aarch64: ["--target=aarch64-linux-gnu", "-mcmodel=tiny"],
};

/**
 * Compiles a program.
 *
 * @param symbols Where to leave an ELF file with its symbols, for a debugger
 * @returns Its machine code, as text
 * @throws {Error} If a tool fails; the message has what it printed
 */
export async function compileObject(
  { program, machine }: LauncherObject,
  symbols?: string,
): Promise<string> {
  const directory = await Deno.makeTempDir({ prefix: "launcher_" });
  const [object, linked, flat] = ["o", "elf", "bin"]
    .map((ending) => `${directory}/program.${ending}`) as [
      string,
      string,
      string,
    ];
  try {
    const source = `${ROOT}launcher/${program}.c`;
    const flags = [...MACHINE_FLAGS[machine], ...FLAGS];
    await run(TOOLS.compiler, [...flags, "-c", source, "-o", object]);
    await run(TOOLS.linker, [
      ...["-pie", "--no-dynamic-linker", "--build-id=none"],
      ...["-z", "norelro"],
      ...["-T", `${ROOT}launcher/flat.ld`, object, "-o", linked],
    ]);
    await run(TOOLS.copier, [
      ...["-O", "binary", "--only-section=.text", linked, flat],
    ]);
    const { stdout: disassembly } = await run(TOOLS.disassembler, [
      ...["-d", "--no-show-raw-insn", "--section=.text", linked],
    ]);
    if (symbols !== undefined) await Deno.copyFile(linked, symbols);
    const bytes = await Deno.readFile(flat);
    return formatObject(bytes, disassembly, await digestSources(program));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** Bytes in a line of texts. */
const LINE_BYTES = 16;

/**
 * Formats machine code: functions with their instructions, then texts.
 *
 * @param disassembly Of llvm-objdump, with the label `texts` where the instructions end
 */
export function formatObject(
  bytes: Uint8Array,
  disassembly: string,
  digest: string,
): string {
  const [code = "", texts = ""] = disassembly.split(
    /(?=^[0-9a-f]+ <texts>:$)/m,
  );
  const end = Number.parseInt(texts, 16);
  const lines = code.split("\n");
  const addresses = lines.flatMap((line) => {
    const [, address] = INSTRUCTION.exec(line) ?? [];
    return address === undefined ? [] : [Number.parseInt(address, 16)];
  });
  const ends = new Map(
    addresses.map((at, index) => [at, addresses[index + 1] ?? end]),
  );
  const result = [
    "Machine code, by `deno task launcher`: address, bytes, instruction.",
    `Sources: SHA-256 ${digest}`,
  ];
  for (const line of lines) {
    const [, name] = /^[0-9a-f]+ <([^$>]+)>:$/.exec(line) ?? [];
    if (name !== undefined) result.push("", `${name}:`);
    const [, address, text = ""] = INSTRUCTION.exec(line) ?? [];
    if (address === undefined) continue;
    const at = Number.parseInt(address, 16);
    const cell = formatBytes(bytes, at, ends.get(at) ?? end);
    result.push(`${cell.padEnd(34)}  ${text.replaceAll("\t", " ").trim()}`);
  }
  result.push("", "texts:");
  for (let at = end; at < bytes.length; at += LINE_BYTES) {
    const behind = Math.min(at + LINE_BYTES, bytes.length);
    const text = [...bytes.subarray(at, behind)]
      .map((byte) => byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".");
    result.push(
      `${formatBytes(bytes, at, behind).padEnd(53)}  ${text.join("")}`,
    );
  }
  return `${result.join("\n")}\n`;
}

/** An instruction of a disassembly: its address and what it does. */
const INSTRUCTION = /^ +([0-9a-f]+): *\t(.*)$/;

function formatBytes(bytes: Uint8Array, from: number, to: number): string {
  const digits = [...bytes.subarray(from, to)]
    .map((byte) => byte.toString(16).padStart(2, "0"));
  return `${from.toString(16).padStart(4, "0")}  ${digits.join(" ")}`;
}
