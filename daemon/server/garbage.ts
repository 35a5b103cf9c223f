/**
 * Gives memory of ended calls back. Left alone, V8 keeps garbage until there
 * are hundreds of MB of it: it knows neither that this process is resident nor
 * when no caller waits for it.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { trimMemory } from "../../ffi/libc.ts";

/** How many calls make a collection worth while, and how many force one. */
const LEAST_CALLS = 100, MOST_CALLS = 1000;

/** The time without a call that it waits for, in ms. */
const IDLE_MS = 1000;

/** Options of a {@linkcode GarbageCollector}. */
export interface GarbageOptions {
  /** Reports whether no caller waits for this process. */
  readonly isIdle: () => boolean;
  /** Collects all garbage; by V8 if undefined. */
  readonly collect?: () => unknown;
  /** See {@linkcode IDLE_MS}. */
  readonly idleMs?: number;
}

/** Collects garbage between calls. It takes 50 to 100 ms. */
export class GarbageCollector {
  readonly #isIdle: () => boolean;
  readonly #collect: () => unknown;
  readonly #idleMs: number;
  #calls = 0;
  #isWaiting = false;

  /** Starts to count calls. */
  constructor(
    { isIdle, collect = collectHeap, idleMs = IDLE_MS }: GarbageOptions,
  ) {
    this.#isIdle = isIdle;
    this.#collect = collect;
    this.#idleMs = idleMs;
  }

  /** Counts a call that has ended. Collects later, after its answer. */
  afterCall(): void {
    this.#calls++;
    if (this.#calls >= LEAST_CALLS && !this.#isWaiting) this.#wait();
  }

  #wait(): void {
    const before = this.#calls;
    this.#isWaiting = true;
    // After a stop of this process it has seen what came meanwhile.
    const { signal } = new JoinedSignal(this.#idleMs);
    signal.addEventListener("abort", () => {
      const isIdle = this.#isIdle() && this.#calls === before;
      if (!isIdle && this.#calls < MOST_CALLS) return this.#wait();
      this.#isWaiting = false;
      this.#calls = 0;
      this.#collect();
    });
  }
}

/**
 * Collects all garbage now, and gives the memory back to the kernel. V8 has the
 * function only in contexts that are made after the flag is set.
 */
export async function collectHeap(): Promise<void> {
  // Lazy: executables cannot have Node's modules any other way.
  const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([
    import("node:v8"),
    import("node:vm"),
  ]);
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  trimMemory();
}
