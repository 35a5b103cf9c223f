/**
 * The streams of a process that is a plugin: all of stdin, and all of an answer
 * or none, also where a pipe does not wait.
 *
 * @module
 */

import { describeError } from "./error.ts";

/** What of the console prints to stdout. */
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
 * Makes the console print to stderr alone: a stray `console.log`, in a plugin or
 * in what it imports, shall not get between the runtime and the answer.
 */
export function sendConsoleToStderr(): void {
  for (const method of STDOUT_METHODS) console[method] = console.error;
}

/** Reads stdin to its end. Deno itself tries again if that does not wait. */
export function readStdin(): Uint8Array {
  const chunks: Uint8Array[] = [];
  const buffer = new Uint8Array(64 * 1024);
  for (;;) {
    const length = Deno.stdin.readSync(buffer);
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

/** Writes all of a text; returns what is in the way if it cannot. */
export function writeStderr(text: string): string | undefined {
  return findProblem(() => {
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) {
      bytes = bytes.subarray(whenReady(() => Deno.stderr.writeSync(bytes)));
    }
  });
}

/**
 * Writes all of a text; returns what is in the way if it cannot.
 *
 * A stdout that is closed is not noticed, as it is by the Go plugins: before
 * this program begins, Deno has opened /dev/null in its place, for reading and
 * writing, and just so does who wants no answer, as by Python's
 * `subprocess.DEVNULL`.
 *
 * Source: Rust's std `sanitize_standard_fds`.
 */
export function writeStdout(text: string): string | undefined {
  return findProblem(() => {
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) {
      const length = lengthOfChunk(bytes);
      writeChunk(bytes.subarray(0, length));
      bytes = bytes.subarray(length);
    }
  });
}

function findProblem(write: () => void): string | undefined {
  try {
    write();
    return undefined;
  } catch (error) {
    return describeError(error);
  }
}

/** A pipe takes so much at once or nothing. Source: linux/limits.h `PIPE_BUF`. */
const ATOMIC_BYTES = 4096;
/** Less than Deno holds back of a line. Source: Rust's std `LineWriter`, 1024. */
const HELD_BACK_BYTES = 1023;
const LINE_FEED = 0x0a;
const NOTHING = new Uint8Array();

/**
 * Cuts off whole lines, or a part of one without its end.
 *
 * To Deno stdout is a line buffer: whole lines are written through, anything
 * else is kept first and written then. So, if a pipe is full, of the former
 * nothing is gone and of the latter everything is taken; a mixture could not be
 * told.
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

/** Does something with a stream; again after a while if that does not wait itself. */
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

/** EAGAIN: somebody who has the other end has set the stream so. */
function isBusy(error: unknown): boolean {
  return error instanceof Deno.errors.WouldBlock;
}

const PAUSE_MS = 5;

/** Sleeps: the process has nothing else to do than to wait for the stream. */
function pause(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
}
