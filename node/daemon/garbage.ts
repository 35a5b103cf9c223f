/**
 * Gives memory of ended calls back. Left alone, V8 keeps garbage until there are
 * hundreds of MB of it: it knows neither that this process stays for long nor
 * when nobody waits for it.
 *
 * @module
 */

import { deadline } from "../../cni/deadline.ts";

/** How many calls make a collection worth while, and how many force one. */
const LEAST_CALLS = 100, MOST_CALLS = 200;

/** How long to wait for a moment without calls, in ms. */
const IDLE_MS = 100;

/** Options of a {@linkcode GarbageCollector}. */
export interface GarbageOptions {
  /** Reports whether nobody waits for this process. */
  readonly isIdle: () => boolean;
  /** Collects all garbage; by V8 if undefined. */
  readonly collect?: () => unknown;
}

/** Collects garbage between calls. It takes some 10 ms. */
export class GarbageCollector {
  readonly #isIdle: () => boolean;
  readonly #collect: () => unknown;
  #calls = 0;
  #isWaiting = false;

  /** Starts to count calls. */
  constructor({ isIdle, collect = collectByV8 }: GarbageOptions) {
    this.#isIdle = isIdle;
    this.#collect = collect;
  }

  /** Counts a call that has ended. Collects later, after its answer. */
  afterCall(): void {
    this.#calls++;
    if (this.#calls < LEAST_CALLS || this.#isWaiting) return;
    this.#isWaiting = true;
    deadline(IDLE_MS).addEventListener("abort", () => {
      this.#isWaiting = false;
      if (this.#calls < MOST_CALLS && !this.#isIdle()) return;
      this.#calls = 0;
      this.#collect();
    });
  }
}

/** V8 has the function only in contexts that are made after the flag is set. */
async function collectByV8(): Promise<void> {
  // Lazy: executables cannot have Node's modules any other way.
  const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([
    import("node:v8"),
    import("node:vm"),
  ]);
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}
