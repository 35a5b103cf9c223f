/**
 * A process from its input to its end, which comes in time whatever the process
 * and those that it started do.
 *
 * @module
 */

import { type ExitStatus, waitForExit } from "./exit_status.ts";
import { deadline, waitUntil } from "./deadline.ts";

/**
 * How long to read on after a process has ended whose output somebody else
 * holds open, in milliseconds. A daemon that a plugin started with the plugin's
 * own stdout would hold it for ever.
 */
const GRACE_MS = 1000;

/**
 * How long to wait for what follows at once: the end of a process after it was
 * killed, unless it hangs in the kernel, and for what is in a pipe already.
 */
const SETTLING_MS = 100;

/** How a process ended, and what it wrote. */
export interface Ending extends ExitStatus {
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Hands a process its input and waits for its end, and for that of its output.
 *
 * @param child All three of its streams are pipes
 * @param signal When to kill it, and with it its process group, which it must
 *   then be the leader of
 */
export async function runToEnd(
  child: Deno.ChildProcess,
  input: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<Ending> {
  const stdin = feed(child.stdin, input);
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  const status = await waitForStatus(child, signal);
  if (!status.abort) await waitForEnds([stdout, stderr], signal);
  for (const stream of [stdin, stdout, stderr]) stream.stop();
  return { ...status, stdout: stdout.text(), stderr: stderr.text() };
}

/** Waits for a process to end, if need be by killing it. */
async function waitForStatus(
  child: Deno.ChildProcess,
  signal: AbortSignal | undefined,
): Promise<ExitStatus> {
  const exit = waitForExit(child);
  if (signal === undefined) return await exit;
  const status = await waitUntil(exit, signal);
  if (status !== undefined) return status;
  killGroup(child.pid);
  const isDead = await waitUntil(exit, deadline(SETTLING_MS));
  if (!isDead) child.unref();
  return { success: false, cause: "signal: killed", abort: signal };
}

/** Kills a process and those that it started, as far as they did not leave its group. */
function killGroup(leader: number): void {
  try {
    Deno.kill(-leader, "SIGKILL");
  } catch {
    // There is nobody left in the group.
  }
}

/** Waits for the ends of what is read; as a rule they have come by now. */
async function waitForEnds(
  pipes: readonly Transfer[],
  signal: AbortSignal | undefined,
): Promise<void> {
  if (pipes.every((pipe) => pipe.isOver())) return;
  const ends = Promise.all(pipes.map((pipe) => pipe.over));
  await waitUntil(ends, deadline(GRACE_MS, signal));
  // The process itself had ended in time; let nothing of it be lost.
  if (signal?.aborted) await waitUntil(ends, deadline(SETTLING_MS));
}

/** What goes through a pipe. */
interface Transfer {
  readonly over: Promise<void>;
  isOver(): boolean;
  /** Has no more go through it. */
  stop(): void;
}

/** Watches what moves bytes through a pipe. If that fails it is over, too. */
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

/** What is read from a pipe. */
interface Collection extends Transfer {
  /** Decodes what has come so far. */
  text(): string;
}

function collect(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Collection {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const reader = stream.getReader();
  const read = async (): Promise<void> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      chunks.push(value);
    }
  };
  return {
    ...watch(read(), () => reader.cancel()),
    text: () => decodeText(chunks),
  };
}

function decodeText(chunks: readonly Uint8Array<ArrayBuffer>[]): string {
  const decoder = new TextDecoder();
  const parts = chunks.map((chunk) => decoder.decode(chunk, { stream: true }));
  return parts.join("") + decoder.decode();
}

/** Hands bytes over. That a process does not read them is no failure. */
function feed(stream: WritableStream<Uint8Array>, bytes: Uint8Array): Transfer {
  const writer = stream.getWriter();
  const write = async (): Promise<void> => {
    await writer.write(bytes);
    await writer.close();
  };
  return watch(write(), () => writer.abort());
}
