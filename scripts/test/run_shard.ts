/**
 * Runs a part of the tests in a process, and reports how it ended.
 *
 * @module
 */

/** How a process ended. */
export interface ShardEnd {
  /** Its output, stdout and stderr in order of arrival. */
  readonly output: string;
  /** Its exit code; meaningless if a signal ended it. */
  readonly code: number;
  /** The signal that ended it. */
  readonly signal: Deno.Signal | null;
  /** Why we ended it, if we did. */
  readonly stopped: string | undefined;
  /** Whether its output stayed open after its end, for a child of it lived on. */
  readonly leftBehind: boolean;
  /** How long it took, in ms. */
  readonly timeMs: number;
}

/** How to run a process. */
export interface ShardOptions {
  readonly cwd: string | URL;
  /** A command that enters namespaces, in front of deno; none by default. */
  readonly enter?: readonly string[];
  /** Variables beside those of this process. */
  readonly env: Readonly<Record<string, string>>;
  /** Stops the process and its descendants; its reason is printed. */
  readonly stop: AbortSignal;
  /** Is given what the process prints, as it comes. */
  readonly onText?: (text: string) => void | Promise<void>;
}

/** How long children of a process may keep its output open after its end. */
const GRACE_MS = 3000;

/** Runs deno in a new process group, without stdin. */
export async function runShard(
  args: readonly string[],
  { cwd, enter = [], env, stop, onText = () => {} }: ShardOptions,
): Promise<ShardEnd> {
  const startMs = performance.now();
  // The shell has both outputs come by one pipe, in order, and is then deno.
  const script = 'cd "$0" && exec "$@" 2>&1';
  const directory = cwd instanceof URL ? decodeURIComponent(cwd.pathname) : cwd;
  const shell = ["sh", "-c", script, directory, Deno.execPath(), ...args];
  const [program = "", ...rest] = [...enter, ...shell];
  await using child = new Deno.Command(program, {
    args: rest,
    cwd,
    env: { ...env },
    stdin: "null",
    stdout: "piped",
    detached: true,
  }).spawn();
  const reading = new Reading(child.stdout, onText);
  let stopped: string | undefined;
  const end = (): void => {
    stopped = String(stop.reason);
    killGroup(child.pid);
  };
  stop.addEventListener("abort", end);
  if (stop.aborted) end();
  const { code, signal } = await child.status;
  stop.removeEventListener("abort", end);
  const timeMs = performance.now() - startMs;
  const leftBehind = !await reading.endsWithin(GRACE_MS);
  if (leftBehind) killGroup(child.pid);
  const { text: output } = reading;
  return { output, code, signal, stopped, leftBehind, timeMs };
}

/** Collects text from a stream. */
class Reading {
  text = "";
  readonly #reader: ReadableStreamDefaultReader<string>;
  readonly #done: Promise<void>;

  constructor(
    stream: ReadableStream<Uint8Array<ArrayBuffer>>,
    onText: (text: string) => void | Promise<void>,
  ) {
    this.#reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    this.#done = this.#read(onText);
  }

  async #read(onText: (text: string) => void | Promise<void>): Promise<void> {
    while (true) {
      const { done, value } = await this.#reader.read();
      if (done) return;
      this.text += value;
      await onText(value);
    }
  }

  /** Waits for the end of the stream, at most so many ms, and stops reading. */
  async endsWithin(ms: number): Promise<boolean> {
    let ended = true;
    const timer = setTimeout(() => {
      ended = false;
      this.#reader.cancel();
    }, ms);
    await this.#done;
    clearTimeout(timer);
    return ended;
  }
}

/** Kills a process and its descendants, except leaders of other groups. */
function killGroup(leader: number): void {
  try {
    Deno.kill(-leader, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
