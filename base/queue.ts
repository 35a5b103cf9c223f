/**
 * The order in which the tasks of this process run.
 *
 * @module
 */

import { JoinedSignal, waitUntil } from "./deadline.ts";

const NEVER = new AbortController().signal;

/** A task's place among those that run, to be disposed of when the task has ended. */
export interface Slot extends Disposable {
  /**
   * Lets the next task run during a wait. Before it returns, it waits for a slot
   * again.
   */
  readonly yieldDuring: <T>(wait: () => Promise<T>) => Promise<T>;
}

/**
 * Tasks of one key run one at a time, in order of arrival. A limit applies to
 * all tasks together.
 */
export class KeyedQueue {
  readonly #limit: number;
  /** The end of the last task of each key. */
  readonly #tails = new Map<string, Promise<void>>();
  readonly #queue: (() => void)[] = [];
  #running = 0;
  #waiting = 0;

  /**
   * @param limit How many tasks can run at the same time: 1 or more; all by
   * default
   */
  constructor(limit = Infinity) {
    this.#limit = limit;
  }

  /** How many tasks run. */
  get running(): number {
    return this.#running;
  }

  /** How many tasks wait for their turn. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Reports whether tasks of a key run or wait. */
  has(key: string): boolean {
    return this.#tails.has(key);
  }

  /**
   * Waits for a task's slot.
   *
   * @param key Undefined for a task that runs alongside all others
   * @param signal Ends the wait; those behind it still wait for those before it
   * @param untilSlot Ends the wait only when the earlier tasks of the key have ended
   * @param work Something else to wait for, before a slot is taken
   * @returns The slot; undefined if a signal came first
   */
  async wait(
    key: string | undefined,
    signal: AbortSignal = NEVER,
    untilSlot: AbortSignal = NEVER,
    work?: Promise<unknown>,
  ): Promise<Slot | undefined> {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const before = key === undefined ? undefined : this.#enter(key, ended);
    this.#waiting++;
    try {
      if (before !== undefined) await waitUntil(before, signal);
      if (work !== undefined) await waitUntil(work, signal);
      if (!await this.#takeSlot(signal, untilSlot)) {
        if (before === undefined) end();
        else before.then(end);
        return undefined;
      }
    } finally {
      this.#waiting--;
    }
    // One task can wait for several answers at the same time.
    let waits = 0;
    let hasSlot = true, isEnded = false;
    let returning: Promise<void> | undefined;
    const free = (): void => {
      if (hasSlot) this.#freeSlot();
      hasSlot = false;
    };
    const comeBack = async (): Promise<void> => {
      await this.#takeSlot(NEVER);
      hasSlot = true;
      returning = undefined;
      if (isEnded) free();
    };
    return {
      yieldDuring: async (wait) => {
        waits++;
        free();
        this.#waiting++;
        try {
          return await wait();
        } finally {
          if (--waits === 0 && !hasSlot && !isEnded) {
            await (returning ??= comeBack());
          }
          this.#waiting--;
        }
      },
      [Symbol.dispose]: (): void => {
        isEnded = true;
        end();
        free();
      },
    };
  }

  /** Joins a key's queue; returns the end of the task before. */
  #enter(key: string, ended: Promise<void>): Promise<void> | undefined {
    const before = this.#tails.get(key);
    this.#tails.set(key, ended);
    ended.then(() => {
      if (this.#tails.get(key) === ended) this.#tails.delete(key);
    });
    return before;
  }

  async #takeSlot(...signals: readonly AbortSignal[]): Promise<boolean> {
    if (signals.some(({ aborted }) => aborted)) return false;
    if (this.#running < this.#limit) {
      this.#running++;
      return true;
    }
    const { promise, resolve } = Promise.withResolvers<true>();
    const take = (): void => resolve(true);
    this.#queue.push(take);
    if (await waitUntil(promise, ...signals)) return true;
    const at = this.#queue.indexOf(take);
    if (at === -1) this.#freeSlot(); // It got the slot at the same time.
    else this.#queue.splice(at, 1);
    return false;
  }

  /** Passes the slot on to the task that waits longest. */
  #freeSlot(): void {
    const next = this.#queue.shift();
    if (next === undefined) this.#running--;
    else next();
  }
}

/** How long exclusive work keeps others waiting at a time, in ms. */
const GATE_MS = 10_000;

/** Work that waits for its turn. */
interface Waiter {
  readonly isExclusive: boolean;
  readonly begin: () => void;
}

/**
 * A read-write lock: shared work runs at the same time, exclusive work alone, in
 * the order in which it came. While exclusive work waits for slow work, those
 * behind it pass now and then: they may be what ends that.
 */
export class ReadWriteLock {
  readonly #gateMs: number;
  readonly #waiting: Waiter[] = [];
  #running = 0;
  #isExclusive = false;

  /** @param gateMs How long exclusive work keeps others waiting at a time: 10 s by default */
  constructor(gateMs = GATE_MS) {
    this.#gateMs = gateMs;
  }

  /**
   * Waits until it is a task's turn.
   *
   * @param signal Ends the wait
   * @returns The lock, held until disposal; undefined if the signal came first
   */
  async wait(
    isExclusive: boolean,
    signal: AbortSignal = NEVER,
  ): Promise<Disposable | undefined> {
    const { promise, resolve } = Promise.withResolvers<Disposable>();
    const begin = (): void => {
      this.#running++;
      this.#isExclusive = isExclusive;
      resolve({ [Symbol.dispose]: () => this.#end() });
    };
    const waiter = { isExclusive, begin };
    this.#waiting.push(waiter);
    this.#beginNext();
    for (;;) {
      using gate = new JoinedSignal(
        isExclusive ? this.#gateMs : undefined,
        signal,
      );
      const held = await waitUntil(promise, gate.signal);
      if (held !== undefined) return held;
      const at = this.#waiting.indexOf(waiter);
      if (at === -1) return await promise; // Its turn came at the same time.
      this.#waiting.splice(at, 1);
      if (!signal.aborted) this.#waiting.push(waiter);
      this.#beginNext();
      if (signal.aborted) return undefined;
    }
  }

  #beginNext(): void {
    for (let [next] = this.#waiting; next; [next] = this.#waiting) {
      const mayBegin = !this.#isExclusive &&
        (!next.isExclusive || this.#running === 0);
      if (!mayBegin) return;
      this.#waiting.shift();
      next.begin();
    }
  }

  #end(): void {
    this.#running--;
    this.#isExclusive = false;
    this.#beginNext();
  }
}
