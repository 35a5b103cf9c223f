/**
 * Runs a child process and ensures that it exits in time, regardless of its and its
 * children's behaviour.
 *
 * @module
 */

import { deadline, JoinedSignal, waitUntil } from "../deadline.ts";
import { describeError } from "../error.ts";
import { yieldIfLong } from "../long_wait.ts";

/**
 * For how long to keep reading after a process has exited while another process holds
 * its output open, in milliseconds. A daemon that inherited the process's stdout
 * would hold it forever.
 */
const GRACE_MS = 1000;

/**
 * How long to wait for events that normally follow immediately: the exit of a killed
 * process, unless it hangs in the kernel, and data already in a pipe.
 */
const SETTLING_MS = 100;

/** The most bytes of stdout that are read, and the most of stderr that are kept. */
const MAX_STDOUT_BYTES = 16 * 1024 * 1024, MAX_STDERR_BYTES = 1024 * 1024;

/** The exit status and output of a process. */
export interface ProcessResult extends ExitStatus {
  readonly stdout: string;
  /** The last megabyte. */
  readonly stderr: string;
}

/**
 * Feeds a process its input and waits until it has exited and its output has ended.
 * Kills it if it prints more than 16 MiB.
 *
 * @param child All its three streams must be pipes
 * @param signal Kills it together with its process group, which it must lead
 * @param onStderr Receives the lines of stderr as they arrive. If there is more than
 * a megabyte, it receives the beginning, and finally the last lines
 */
export async function runToEnd(
  child: Deno.ChildProcess,
  input: Uint8Array,
  signal: AbortSignal | undefined,
  onStderr: (text: string) => void = () => {},
): Promise<ProcessResult> {
  const stdin = feed(child.stdin, input);
  let isEndless = false;
  const stdout = collect(child.stdout, (chunks, size) => {
    if (size <= MAX_STDOUT_BYTES) return true;
    isEndless = true;
    chunks.length = 0;
    kill(child, signal !== undefined);
    return false;
  });
  const relay = new LogRelay(onStderr);
  const drop = keepEnd();
  const stderr = collect(child.stderr, (chunks) => {
    const [last] = chunks.slice(-1);
    if (last !== undefined) relay.add(last);
    return drop(chunks);
  });
  const status = await yieldIfLong(() => waitForStatus(child, signal));
  if (!status.abort) await waitForEnds([stdout, stderr], signal);
  for (const stream of [stdin, stdout, stderr]) stream.stop();
  const ending = { ...status, stdout: stdout.text(), stderr: stderr.text() };
  relay.end(stderr.chunks);
  return isEndless ? { ...ending, success: false, cause: TOO_MUCH } : ending;
}

/** Options of {@linkcode outputUntil}. */
export interface OutputOptions {
  /** The process's input, if its stdin is a pipe. */
  readonly input?: string;
  /**
   * Whether it leads a process group, which is then killed with it; true by default.
   */
  readonly isLeader?: boolean;
}

/**
 * Waits for the exit status and the whole output of a process until a signal at the
 * latest. On the signal, kills it and returns undefined.
 */
export async function outputUntil(
  child: Deno.ChildProcess,
  signal: AbortSignal,
  { input, isLeader = true }: OutputOptions = {},
): Promise<Deno.CommandOutput | undefined> {
  const output = child.output();
  if (input !== undefined) {
    // If the process does not read its input, its exit status shows the reason.
    await waitUntil(
      feed(child.stdin, new TextEncoder().encode(input)).over,
      signal,
    );
  }
  const ended = await yieldIfLong(() => waitUntil(output, signal));
  if (ended === undefined) await killNow(child, child.status, isLeader);
  return ended;
}

const TOO_MUCH = `it printed more than ${MAX_STDOUT_BYTES} bytes`;

/** Returns a function that drops the oldest chunks of a log that is too long. */
function keepEnd(): (chunks: Uint8Array[]) => true {
  let kept = 0;
  return (chunks) => {
    kept += chunks.at(-1)?.length ?? 0;
    while (kept > MAX_STDERR_BYTES) kept -= chunks.shift()?.length ?? kept;
    return true;
  };
}

/** How many bytes of a log are forwarded before its end, and afterwards. */
const LOG_PART_BYTES = MAX_STDERR_BYTES / 2;

/** Forwards the lines of a log, at most a megabyte in total. */
class LogRelay {
  readonly #onText: (text: string) => void;
  readonly #decoder = new TextDecoder();
  /** The beginning of a line. */
  #line = "";
  #passedBytes = 0;
  /** How many bytes have arrived that are not forwarded before the end. */
  #heldBytes = 0;

  constructor(onText: (text: string) => void) {
    this.#onText = onText;
  }

  /** Forwards the lines that a chunk completes, unless there were too many. */
  add(chunk: Uint8Array): void {
    const part = chunk.subarray(0, LOG_PART_BYTES - this.#passedBytes);
    this.#passedBytes += part.length;
    this.#heldBytes += chunk.length - part.length;
    const text = this.#line + this.#decoder.decode(part, { stream: true });
    const end = text.lastIndexOf("\n") + 1;
    this.#line = text.slice(end);
    if (end > 0) this.#onText(text.slice(0, end));
  }

  /**
   * Forwards the remaining lines, or only the last lines if they are too long.
   *
   * @param kept The last chunks of the log
   */
  end(kept: readonly Uint8Array<ArrayBuffer>[]): void {
    const rest = this.#line + this.#decoder.decode();
    if (this.#heldBytes <= LOG_PART_BYTES) {
      const all = rest + decodeText(lastOf(kept, this.#heldBytes));
      if (all !== "") this.#onText(all);
      return;
    }
    const note = "\n… part of the log is left out …\n";
    const tail = lastOf(kept, LOG_PART_BYTES - 2 * note.length);
    this.#onText(rest + note + decodeText(tail));
  }
}

/** Returns the last bytes of chunks. */
function lastOf(
  chunks: readonly Uint8Array<ArrayBuffer>[],
  bytes: number,
): Uint8Array<ArrayBuffer>[] {
  const last: Uint8Array<ArrayBuffer>[] = [];
  let left = bytes;
  for (const chunk of chunks.toReversed()) {
    const part = chunk.subarray(Math.max(0, chunk.length - left));
    last.unshift(part);
    left -= part.length;
  }
  return last;
}

/** Waits for a process to exit, and kills it if necessary. */
async function waitForStatus(
  child: Deno.ChildProcess,
  signal: AbortSignal | undefined,
): Promise<ExitStatus> {
  const exit = waitForExit(child);
  if (signal === undefined) return await exit;
  const status = await waitUntil(exit, signal);
  if (status !== undefined) return status;
  await killNow(child, exit, true);
  return { success: false, cause: "signal: killed", abort: signal };
}

/**
 * Kills a process, and waits briefly for its exit.
 *
 * @param isLeader Whether it leads a process group, which is killed as well
 */
async function killNow(
  child: Deno.ChildProcess,
  exit: Promise<unknown>,
  isLeader: boolean,
): Promise<void> {
  kill(child, isLeader);
  const isDead = await waitUntil(exit, deadline(SETTLING_MS));
  if (!isDead) child.unref();
}

/** Kills a process, or the remaining processes of the group that it leads. */
function kill(child: Deno.ChildProcess, isLeader: boolean): void {
  try {
    if (isLeader) Deno.kill(-child.pid, "SIGKILL");
    else child.kill("SIGKILL");
  } catch {
    // The process has exited, or the group is empty.
  }
}

/** Waits until all output has been read, which is usually already the case. */
async function waitForEnds(
  pipes: readonly Transfer[],
  signal: AbortSignal | undefined,
): Promise<void> {
  if (pipes.every((pipe) => pipe.isOver())) return;
  const ends = Promise.all(pipes.map((pipe) => pipe.over));
  using grace = new JoinedSignal(GRACE_MS, signal);
  await waitUntil(ends, grace.signal);
  if (!signal?.aborted) return;
  // The process itself exited in time, so its output must not be lost.
  using settling = new JoinedSignal(SETTLING_MS);
  await waitUntil(ends, settling.signal);
}

/** The transfer of a pipe's data. */
interface Transfer {
  readonly over: Promise<void>;
  isOver(): boolean;
  /** Stops the transfer. */
  stop(): void;
}

/** Observes a transfer. A failed transfer counts as finished. */
function watch(
  transfer: Promise<void>,
  stop: () => Promise<void>,
): Transfer {
  let isOver = false;
  const setOver = (): void => {
    isOver = true;
  };
  return {
    over: transfer.then(setOver, setOver),
    isOver: () => isOver,
    stop: (): void => {
      if (!isOver) stop().catch(() => {});
    },
  };
}

/** The data read from a pipe. */
interface Collection extends Transfer {
  /** The data so far, unless it was dropped. */
  readonly chunks: readonly Uint8Array<ArrayBuffer>[];
  /** Decodes the data so far. */
  text(): string;
}

/** @param limit Receives the chunks; returns whether to continue reading */
function collect(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  limit: (chunks: Uint8Array[], size: number) => boolean,
): Collection {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const reader = stream.getReader();
  const read = async (): Promise<void> => {
    for (let size = 0;;) {
      const { done, value } = await reader.read();
      if (done) return;
      chunks.push(value);
      size += value.length;
      if (!limit(chunks, size)) return await reader.cancel();
    }
  };
  return {
    ...watch(read(), () => reader.cancel()),
    chunks,
    text: () => decodeText(chunks),
  };
}

function decodeText(chunks: readonly Uint8Array<ArrayBuffer>[]): string {
  const decoder = new TextDecoder();
  const parts = chunks.map((chunk) => decoder.decode(chunk, { stream: true }));
  return parts.join("") + decoder.decode();
}

/** Writes bytes. Succeeds if the process does not read them. */
function feed(stream: WritableStream<Uint8Array>, bytes: Uint8Array): Transfer {
  const writer = stream.getWriter();
  const write = async (): Promise<void> => {
    await writer.write(bytes);
    await writer.close();
  };
  return watch(write(), () => writer.abort());
}

/**
 * The signals that end a process.
 *
 * Source: Go syscall/zerrors_linux_amd64.go `signals`.
 */
const SIGNALS: Readonly<Record<string, string>> = {
  SIGHUP: "hangup",
  SIGINT: "interrupt",
  SIGQUIT: "quit",
  SIGILL: "illegal instruction",
  SIGTRAP: "trace/breakpoint trap",
  SIGABRT: "aborted",
  SIGBUS: "bus error",
  SIGFPE: "floating point exception",
  SIGKILL: "killed",
  SIGUSR1: "user defined signal 1",
  SIGSEGV: "segmentation fault",
  SIGUSR2: "user defined signal 2",
  SIGPIPE: "broken pipe",
  SIGALRM: "alarm clock",
  SIGTERM: "terminated",
  SIGSTKFLT: "stack fault",
  SIGXCPU: "CPU time limit exceeded",
  SIGXFSZ: "file size limit exceeded",
  SIGVTALRM: "virtual timer expired",
  SIGPROF: "profiling timer expired",
  SIGIO: "I/O possible",
  SIGPWR: "power failure",
  SIGSYS: "bad system call",
};

/** The exit status of a process. */
export interface ExitStatus {
  readonly success: boolean;
  /** The cause, such as `exit status 3` or `signal: killed`. */
  readonly cause: string;
  /** The signal, if the process was killed because of it. */
  readonly abort?: AbortSignal;
}

/**
 * Waits for a process to end.
 *
 * Source: Go os/exec_posix.go `ProcessState.String`.
 */
export async function waitForExit(
  child: Deno.ChildProcess,
): Promise<ExitStatus> {
  try {
    const { success, code, signal } = await child.status;
    return {
      success,
      cause: signal === null
        ? `exit status ${code}`
        : `signal: ${SIGNALS[signal] ?? signal}`,
    };
  } catch (error) {
    // Deno cannot name a real-time signal, and fails with its number instead.
    const [number = "unknown"] = /\d+$/.exec(describeError(error)) ?? [];
    return { success: false, cause: `signal: signal ${number}` };
  }
}
