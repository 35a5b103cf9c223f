/**
 * This process: replacing its program, execvpe(3), and returning memory to the
 * system, malloc_trim(3) and madvise(2).
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { checked, cString, openSymbols, PADDING, UNCOMPILED } from "./call.ts";

/** Symbols to replace the program of this process. */
const EXEC_SYMBOLS = {
  signal: { parameters: ["i32", "usize"], result: "usize" },
  setrlimit: { parameters: ["i32", "buffer"], result: "i32" },
  execvpe: { parameters: ["buffer", "buffer", "buffer"], result: "i32" },
} as const;

/** The arguments of {@linkcode execvpe}. */
export interface Exec {
  /** The program. A name without a slash is looked up in PATH. */
  readonly file: string;
  /** All arguments, the program's own name first. */
  readonly argv: readonly string[];
  /** The environment: NUL-terminated `NAME=value` entries. */
  readonly env: readonly Bytes[];
  /** The soft limit for open files. */
  readonly openFiles?: OpenFileLimit | undefined;
}

/** RLIMIT_NOFILE. */
export interface OpenFileLimit {
  readonly soft: bigint;
  readonly hard: bigint;
}

/** Source: include/uapi/asm-generic/signal.h, resource.h. */
const SIGPIPE = 13, SIG_DFL = 0n, RLIMIT_NOFILE = 7;

/**
 * execvpe(3): replaces the program of this process, in this thread's namespaces.
 * Never returns; throws on failure.
 *
 * Resets SIGPIPE first: Deno ignores it, and the program would inherit that.
 *
 * @throws {SyscallError} ENOENT, EACCES, ... from execve(2)
 */
export function execvpe({ file, argv, env, openFiles }: Exec): never {
  const symbols = openSymbols(EXEC_SYMBOLS);
  const [args, variables] = [packStrings(argv.map(cString)), packStrings(env)];
  symbols.signal(SIGPIPE, SIG_DFL);
  if (openFiles !== undefined) {
    const { soft, hard } = openFiles;
    const limit = new Uint8Array(new BigUint64Array([soft, hard]).buffer);
    symbols.setrlimit(RLIMIT_NOFILE, limit); // a refusal changes nothing
  }
  checked("execvpe", () => symbols.execvpe(cString(file), args, variables));
  throw new Error(`Cannot execute "${file}": execvpe returned`);
}

/**
 * Lays out strings for C: pointers, NULL, then the strings. They share one
 * block of memory that is too large for V8 to move.
 *
 * @param texts NUL-terminated
 */
export function packStrings(texts: readonly Bytes[]): Bytes {
  const headBytes = 8 * (texts.length + 1);
  const textBytes = texts.reduce((sum, text) => sum + text.length, 0);
  const memory = new Uint8Array(Math.max(headBytes + textBytes, 1024));
  const head = new BigUint64Array(memory.buffer, 0, texts.length + 1);
  const base = Deno.UnsafePointer.value(Deno.UnsafePointer.of(memory));
  let offset = headBytes;
  texts.forEach((text, index) => {
    memory.set(text, offset);
    head[index] = base + BigInt(offset);
    offset += text.length;
  });
  return memory;
}

/** Symbols of a long-running process. */
const MEMORY_SYMBOLS = {
  malloc_trim: { parameters: ["usize", UNCOMPILED], result: "i32" },
  madvise: { parameters: ["usize", "usize", "i32", UNCOMPILED], result: "i32" },
} as const;

let memory:
  | Deno.DynamicLibrary<typeof MEMORY_SYMBOLS>["symbols"]
  | undefined;

/**
 * Returns memory that the C library keeps for reuse, malloc_trim(3). It takes a few
 * ms.
 */
export function trimMemory(): void {
  memory ??= openSymbols(MEMORY_SYMBOLS);
  memory.malloc_trim(0n, PADDING);
}

/** Source: include/uapi/asm-generic/mman-common.h. */
const MADV_DONTNEED = 4;

/**
 * Unmaps the pages of this program's files, madvise(2), most of which only the start
 * needed. The kernel keeps the pages in its cache, and maps those that are needed
 * again. It takes a few ms.
 *
 * Source: proc_pid_smaps(5).
 */
export function unmapProgramPages(): void {
  const { madvise } = memory ??= openSymbols(MEMORY_SYMBOLS);
  const smaps = Deno.readTextFileSync("/proc/self/smaps");
  for (const text of smaps.split(/^(?=[\da-f]+-[\da-f]+ )/m)) {
    const [, start, end] =
      /^([\da-f]+)-([\da-f]+) r-[x-]p \S+ \S+ \d+ +\//.exec(text) ?? [];
    // The linker writes into some mappings before it protects them.
    if (start === undefined || !/^Anonymous: +0 kB$/m.test(text)) continue;
    const address = BigInt(`0x${start}`);
    madvise(address, BigInt(`0x${end}`) - address, MADV_DONTNEED, PADDING);
  }
}
