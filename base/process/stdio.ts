/**
 * A plugin process's name, environment and standard streams. Reads all of stdin, and
 * writes an answer completely or not at all, even on non-blocking pipes.
 *
 * @module
 */

import { describeError } from "../error.ts";

/**
 * Returns the name under which this process was started, without directories.
 * Deno.execPath() would follow links.
 */
export function calledAs(): string {
  const [argv0 = ""] = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
  return argv0.slice(argv0.lastIndexOf("/") + 1);
}

/**
 * Returns the environment. The first of repeated variables counts, as for getenv(3),
 * Go and the node daemon, but unlike `Deno.env.toObject()`, where the last counts.
 */
export function readEnvironment(): Record<string, string> {
  const env = Deno.env.toObject();
  for (const name of Object.keys(env)) {
    // A caller can put any text into the environment.
    const isName = name !== "" && !name.includes("=");
    const value = isName ? readVariable(name) : undefined;
    if (value !== undefined) env[name] = value;
  }
  return env;
}

/**
 * Returns a variable of the environment; undefined if it is unset or not UTF-8, which
 * makes `Deno.env.get()` throw.
 */
export function readVariable(name: string): string | undefined {
  try {
    return Deno.env.get(name);
  } catch {
    return undefined;
  }
}

/** The console methods that print to stdout. */
const STDOUT_METHODS = [
  "log",
  "info",
  "debug",
  "dir",
  "dirxml",
  "table",
  "count",
  "timeLog",
  "timeEnd",
  "group",
  "groupCollapsed",
  "clear",
] as const;

/**
 * Redirects the console to stderr, so that a stray `console.log` in a plugin or a
 * dependency does not corrupt the answer.
 */
export function sendConsoleToStderr(): void {
  for (const method of STDOUT_METHODS) console[method] = console.error;
}

/** The most bytes that {@linkcode readStdin} reads. */
const MAX_STDIN_BYTES = 16 * 1024 * 1024;

/**
 * Reads all of stdin. Deno itself retries if stdin is non-blocking.
 *
 * @throws {Error} If there are more than 16 MiB
 */
export function readStdin(): Uint8Array {
  const chunks: Uint8Array[] = [];
  const buffer = new Uint8Array(64 * 1024);
  let size = 0;
  for (;;) {
    const length = Deno.stdin.readSync(buffer);
    if (length === null) return joinChunks(chunks);
    size += length;
    if (size > MAX_STDIN_BYTES) {
      throw new Error(`it has more than ${MAX_STDIN_BYTES} bytes`);
    }
    chunks.push(buffer.slice(0, length));
  }
}

/** How long {@linkcode readStdinSoon} waits, in ms. */
const SOON_MS = 100;

/**
 * Reads stdin of a caller that might have left it open: up to its end, or the bytes
 * that arrive within 100 ms. Does not read from a terminal.
 */
export async function readStdinSoon(): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  if (Deno.stdin.isTerminal()) return joinChunks(chunks);
  const { promise: late, resolve } = Promise.withResolvers<null>();
  AbortSignal.timeout(SOON_MS).addEventListener("abort", () => resolve(null));
  const buffer = new Uint8Array(64 * 1024);
  for (;;) {
    const read = Deno.stdin.read(buffer).catch(() => null);
    const length = await Promise.race([read, late]);
    if (length === null) return joinChunks(chunks);
    chunks.push(buffer.slice(0, length));
  }
}

function joinChunks(chunks: readonly Uint8Array[]): Uint8Array {
  const [first] = chunks;
  if (first !== undefined && chunks.length === 1) return first;
  const whole = new Uint8Array(
    chunks.reduce((length, chunk) => length + chunk.length, 0),
  );
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return whole;
}

/** Writes all of a text; returns the error if that fails. */
export function writeStderr(text: string): string | undefined {
  return tryToWrite(() => {
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) {
      bytes = bytes.subarray(whenReady(() => Deno.stderr.writeSync(bytes)));
    }
  });
}

/**
 * Writes all of a text; returns the error if that fails.
 *
 * Unlike the Go plugins, this does not detect a closed stdout: Deno replaces it with
 * /dev/null at start-up, which looks the same as a caller that discards the answer,
 * such as Python's `subprocess.DEVNULL`.
 *
 * Source: Rust's std `sanitize_standard_fds`.
 */
export function writeStdout(text: string): string | undefined {
  return tryToWrite(() => {
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) {
      const length = lengthOfChunk(bytes);
      writeChunk(bytes.subarray(0, length));
      bytes = bytes.subarray(length);
    }
  });
}

function tryToWrite(write: () => void): string | undefined {
  try {
    write();
    return undefined;
  } catch (error) {
    return describeError(error);
  }
}

/** Writes up to this size to a pipe are atomic. Source: linux/limits.h `PIPE_BUF`. */
const ATOMIC_BYTES = 4096;
/** Less than Deno's line buffer. Source: Rust's std `LineWriter`, 1024. */
const HELD_BACK_BYTES = 1023;
const LINE_FEED = 0x0a;
const NOTHING = new Uint8Array();

/**
 * Returns the length of the next chunk: whole lines, or a part of a line without its
 * end.
 *
 * Deno line-buffers stdout: whole lines are written through, a partial line is
 * buffered first. If a pipe is full, no whole line has been written, but a partial
 * line is completely buffered; a mixture of both would be ambiguous.
 */
function lengthOfChunk(bytes: Uint8Array): number {
  const lines = bytes.subarray(0, ATOMIC_BYTES).lastIndexOf(LINE_FEED) + 1;
  return lines || Math.min(bytes.length, HELD_BACK_BYTES);
}

function writeChunk(chunk: Uint8Array): void {
  let rest = chunk;
  const onBusy = (): void => {
    if (rest.at(-1) !== LINE_FEED) rest = NOTHING;
  };
  do {
    const length = whenReady(() => Deno.stdout.writeSync(rest), onBusy);
    rest = rest.subarray(length);
  } while (rest.length > 0);
}

/** Reads or writes a stream; retries if it is non-blocking. */
function whenReady<T>(transfer: () => T, onBusy = (): void => {}): T {
  for (;;) {
    try {
      return transfer();
    } catch (error) {
      if (!isBusy(error)) throw error;
      onBusy();
      pause();
    }
  }
}

/** EAGAIN: the process at the other end has made the stream non-blocking. */
function isBusy(error: unknown): boolean {
  return error instanceof Deno.errors.WouldBlock;
}

const PAUSE_MS = 5;

/** Sleeps: the process can only wait for the stream. */
function pause(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
}
