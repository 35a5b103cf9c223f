/**
 * Starting processes and waiting for them, without anything of Deno's between:
 * `Deno.Command` adds milliseconds and does not report resource usage.
 *
 * A process is made by posix_spawn(3), which does not copy this one, in the
 * namespaces of the calling thread, and read from wait4(2).
 *
 * @module
 */

import type { Bytes } from "../../../net/bytes.ts";
import { errnoName } from "../../../ffi/errno.ts";
import { packStrings } from "../../../ffi/libc.ts";

const SYMBOLS = {
  posix_spawn: {
    parameters: ["buffer", "buffer", "buffer", "pointer", "buffer", "buffer"],
    result: "i32",
  },
  posix_spawn_file_actions_init: { parameters: ["buffer"], result: "i32" },
  posix_spawn_file_actions_addopen: {
    parameters: ["buffer", "i32", "buffer", "i32", "u32"],
    result: "i32",
  },
  posix_spawn_file_actions_destroy: { parameters: ["buffer"], result: "i32" },
  wait4: { parameters: ["i32", "buffer", "i32", "buffer"], result: "i32" },
} as const;

type Symbols = Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];
let opened: Symbols | undefined;

function libc(): Symbols {
  return opened ??= Deno.dlopen("libc.so.6", SYMBOLS).symbols;
}

/** Room for `posix_spawn_file_actions_t`, which has 80 bytes in glibc. */
const FILE_ACTIONS_SIZE = 256;
/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDONLY = 0, O_WRONLY = 1, O_CREAT = 0o100, O_TRUNC = 0o1000;
/** A process to start, with its path as argv[0]. */
export interface Program {
  /** The executable. */
  readonly path: string;
  /** argv without argv[0]. */
  readonly args: readonly string[];
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** A file that is read as stdin. */
  readonly stdin: string;
  /** A file that stdout is written to, made anew. */
  readonly stdout: string;
  /** The same for stderr. */
  readonly stderr: string;
}

/** How a process ended. */
export interface Ended {
  readonly pid: number;
  /** The exit status, or 128 more than the signal's number. */
  readonly code: number;
  /** Processor time of it and those that it has waited for. */
  readonly cpuMs: number;
}

/** A process that ran to its end. */
export interface Timed extends Ended {
  /** From before it was made until it was waited for. */
  readonly wallMs: number;
}

const encoder = new TextEncoder();

function cString(text: string): Bytes {
  return encoder.encode(`${text}\0`);
}

/** A program laid out for C, so that starting it is the call alone. */
export class PreparedProgram implements Disposable {
  readonly #path: Bytes;
  readonly #argv: Bytes;
  readonly #env: Bytes;
  readonly #actions: Bytes = new Uint8Array(FILE_ACTIONS_SIZE);
  readonly #pid = new Int32Array(1);

  /** Lays out a program. */
  constructor({ path, args, env, ...files }: Program) {
    this.#path = cString(path);
    this.#argv = packStrings([path, ...args].map(cString));
    const entries = Object.entries(env).map((entry) => entry.join("="));
    this.#env = packStrings(entries.map(cString));
    libc().posix_spawn_file_actions_init(this.#actions);
    this.#open(0, files.stdin, O_RDONLY);
    this.#open(1, files.stdout, O_WRONLY | O_CREAT | O_TRUNC);
    this.#open(2, files.stderr, O_WRONLY | O_CREAT | O_TRUNC);
  }

  #open(fd: number, file: string, flags: number): void {
    const { posix_spawn_file_actions_addopen: addOpen } = libc();
    addOpen(this.#actions, fd, cString(file), flags, 0o600);
  }

  /**
   * Starts it.
   *
   * @returns Its process ID
   * @throws {Error} If the executable does not exist
   */
  start(): number {
    const pid = this.#pid;
    const [path, argv, env] = [this.#path, this.#argv, this.#env];
    const error = libc().posix_spawn(pid, path, this.#actions, null, argv, env);
    if (error === 0) return pid[0] ?? 0;
    const name = new TextDecoder().decode(path.subarray(0, -1));
    throw new Error(`Cannot start "${name}": ${errnoName(error)}`);
  }

  /** Starts it, and waits for its end. */
  run(): Timed {
    const startMs = performance.now();
    const ended = waitFor(this.start());
    return { ...ended, wallMs: performance.now() - startMs };
  }

  /** Frees what C has allocated. */
  [Symbol.dispose](): void {
    libc().posix_spawn_file_actions_destroy(this.#actions);
  }
}

/** Words of 64 bits in `struct rusage`: two times of two, and 14 more. */
const RUSAGE_WORDS = 18;
const status = new Int32Array(1);
const usage = new BigInt64Array(RUSAGE_WORDS);

/**
 * Waits for a child to end.
 *
 * @param pid Which one; -1 for whichever is the first
 * @throws {Error} If the child does not exist
 */
export function waitFor(pid: number): Ended {
  const ended = libc().wait4(pid, status, 0, usage);
  if (ended < 0) throw new Error(`Cannot wait for process ${pid}`);
  const [word = 0] = status;
  // Source: WTERMSIG and WEXITSTATUS of wait(2).
  const signal = word & 0x7f;
  return {
    pid: ended,
    code: signal === 0 ? word >> 8 & 0xff : 128 + signal,
    cpuMs: readCpuMs(),
  };
}

/** Source: getrusage(2): user and system time, each in seconds and microseconds. */
function readCpuMs(): number {
  const [userS = 0, userUs = 0, systemS = 0, systemUs = 0] = [...usage]
    .map(Number);
  return (userS + systemS) * 1000 + (userUs + systemUs) / 1000;
}
