/**
 * Returns the memory of ended calls to the kernel. V8 by itself lets hundreds of MB of
 * garbage accumulate, because it detects neither that this process is resident nor
 * when no caller waits.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { trimMemory } from "../../ffi/libc.ts";

/** How many calls permit a collection, and how many force it. */
const LEAST_CALLS = 100, MOST_CALLS = 1000;

/**
 * By how many bytes the process must have grown to permit a collection, and to force it.
 * A few pods a second leave no long pauses between their calls, and a burst of pods has
 * fewer than 1000 calls.
 */
const LEAST_BYTES = 12 << 20, MOST_BYTES = 48 << 20;

/**
 * Time from a collection because of the size to the next collection, in ms. The first
 * collection may have run during a removal of orphans, when most of the memory was still
 * in use.
 */
const AGAIN_MS = 30_000;

/** How many calls pass between two reads of the process's size. */
const LOOK_CALLS = 8;

/** Time without calls before a collection, in ms: less than the time between two pods. */
const IDLE_MS = 200;

/** Options of a {@linkcode HeapCollector}. */
export interface HeapCollectorOptions {
  /** Reports whether no caller waits for this process. */
  readonly isIdle: () => boolean;
  /** Collects all garbage; by V8 if undefined. */
  readonly collect?: () => unknown;
  /** See {@linkcode IDLE_MS}. */
  readonly idleMs?: number;
  /** See {@linkcode AGAIN_MS}. */
  readonly againMs?: number;
  /** Returns how large the process is, in bytes; its resident set if undefined. */
  readonly readBytes?: () => number;
  /** Receives the error of a failed collection, which is retried after the same number of calls. */
  readonly onFailed: (error: unknown) => void;
}

/** Collects the garbage in V8's heap between calls. It takes 50 to 100 ms. */
export class HeapCollector {
  readonly #isIdle: () => boolean;
  readonly #collect: () => unknown;
  readonly #idleMs: number;
  readonly #againMs: number;
  readonly #readBytes: () => number;
  readonly #onFailed: (error: unknown) => void;
  #calls = 0;
  /** The size of the process after the last collection, and the calls since then. */
  #bytes: number | undefined;
  #grownBytes = 0;
  #againAt = Infinity;
  #isWaiting = false;

  /** Starts to count calls. */
  constructor(
    { isIdle, collect = collectHeap, idleMs = IDLE_MS, ...options }:
      HeapCollectorOptions,
  ) {
    this.#isIdle = isIdle;
    this.#collect = collect;
    this.#idleMs = idleMs;
    this.#againMs = options.againMs ?? AGAIN_MS;
    this.#onFailed = options.onFailed;
    this.#readBytes = options.readBytes ?? (() => Deno.memoryUsage().rss);
  }

  /** Counts a call that has ended. Collects later, after its answer. */
  afterCall(): void {
    this.#calls++;
    if (this.#calls % LOOK_CALLS === 0) this.look();
    else this.#waitIfReached();
  }

  /** Collects if the process has grown. */
  look(): void {
    const bytes = this.#readBytes();
    this.#bytes ??= bytes;
    this.#grownBytes = bytes - this.#bytes;
    this.#waitIfReached();
  }

  #waitIfReached(): void {
    const isDue = this.#isReached(LEAST_CALLS, LEAST_BYTES) ||
      performance.now() >= this.#againAt;
    if (isDue && !this.#isWaiting) this.#wait();
  }

  #isReached(calls: number, bytes: number): boolean {
    return this.#calls >= calls || this.#grownBytes >= bytes;
  }

  #wait(): void {
    const before = this.#calls;
    this.#isWaiting = true;
    // After SIGCONT, the calls that arrived while the process was stopped are read first.
    const { signal } = new JoinedSignal(this.#idleMs);
    signal.addEventListener("abort", () => {
      const isIdle = this.#isIdle() && this.#calls === before;
      if (!isIdle && !this.#isReached(MOST_CALLS, MOST_BYTES)) {
        return this.#wait();
      }
      void this.#collectNow();
    });
  }

  async #collectNow(): Promise<void> {
    try {
      await this.#collect();
    } catch (error) {
      this.#onFailed(error);
    } finally {
      this.#calls = 0;
      this.#againAt = this.#grownBytes >= LEAST_BYTES
        ? performance.now() + this.#againMs
        : Infinity;
      this.#bytes = this.#readBytes();
      this.#grownBytes = 0;
      this.#isWaiting = false;
    }
  }
}

/**
 * Collects all garbage now, and gives the memory back to the kernel. V8 has the
 * function only in contexts that are made after the flag is set.
 */
export async function collectHeap(): Promise<void> {
  // Executables can load Node's modules only lazily.
  const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([
    import("node:v8"),
    import("node:vm"),
  ]);
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  trimMemory();
}
