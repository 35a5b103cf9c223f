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
   * again, ahead of the tasks that have not begun, unless the task's signal is aborted
   * or the task waits elsewhere.
   */
  readonly yieldDuring: <T>(wait: () => Promise<T>) => Promise<T>;
}

/** Which tasks get a free slot first; a task that is short needs no slot. */
export type Turn = "without a slot" | "first" | "in order";

/** How a task waits for its slot. */
export interface SlotWait {
  /** Ends the wait only when the earlier tasks of the key have ended. */
  readonly untilSlot?: AbortSignal;
  /** Something else to wait for, before a slot is taken. */
  readonly work?: Promise<unknown> | undefined;
  /** "in order" by default. */
  readonly turn?: Turn;
}

/**
 * Tasks of one key run one at a time, in order of arrival. Limits apply to all tasks
 * together.
 */
export class KeyedQueue {
  readonly #limit: number;
  readonly #mostBegun: number;
  /** The end of the last task of each key. */
  readonly #tails = new Map<string, Promise<void>>();
  /** Tasks that wait for a slot again, and tasks that have not begun, by their turn. */
  readonly #returning: (() => void)[] = [];
  readonly #queues: Readonly<
    Record<Exclude<Turn, "without a slot">, (() => void)[]>
  > = { "first": [], "in order": [] };
  #slots = 0;
  #begun = 0;
  #withoutSlot = 0;
  #waiting = 0;

  /**
   * @param limit How many tasks can run at the same time: 1 or more; all by
   *   default
   * @param mostBegun How many tasks can have begun, including those that yield: 1 or
   *   more; all by default
   */
  constructor(limit = Infinity, mostBegun = Infinity) {
    this.#limit = limit;
    this.#mostBegun = mostBegun;
  }

  /** How many tasks run, without those that yield. */
  get running(): number {
    return this.#slots + this.#withoutSlot;
  }

  /** How many tasks have begun, and yield or wait for a slot again. */
  get yielding(): number {
    return this.#begun - this.#slots;
  }

  /** How many tasks have not begun. */
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
   * @param signal Ends the wait; later tasks of the key still wait for earlier ones
   * @returns The slot; undefined if a signal was aborted first
   */
  async wait(
    key: string | undefined,
    signal: AbortSignal = NEVER,
    { untilSlot = NEVER, work, turn = "in order" }: SlotWait = {},
  ): Promise<Slot | undefined> {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const before = key === undefined ? undefined : this.#enter(key, ended);
    const hasLimits = turn !== "without a slot";
    this.#waiting++;
    try {
      if (before !== undefined) await waitUntil(before, signal);
      if (work !== undefined) await waitUntil(work, signal);
      const mayBegin = hasLimits
        ? await this.#takeSlot(this.#queues[turn], signal, untilSlot)
        : !signal.aborted && !untilSlot.aborted;
      if (!mayBegin) {
        if (before === undefined) end();
        else before.then(end);
        return undefined;
      }
    } finally {
      this.#waiting--;
    }
    return hasLimits ? this.#makeSlot(end, signal) : this.#makeExempt(end);
  }

  #makeSlot(end: () => void, signal: AbortSignal): Slot {
    // One task can wait for several answers at the same time.
    let waits = 0;
    let hasSlot = true, isEnded = false;
    let returning: Promise<void> | undefined;
    const free = (): void => {
      if (hasSlot) this.#slots--;
      hasSlot = false;
      this.#passOn();
    };
    const comeBack = async (): Promise<void> => {
      hasSlot = await this.#takeSlot(this.#returning, signal);
      returning = undefined;
      if (isEnded || waits > 0) free();
    };
    return {
      yieldDuring: async (wait) => {
        if (isEnded) return await wait();
        waits++;
        free();
        try {
          return await wait();
        } finally {
          if (--waits === 0 && !hasSlot && !isEnded) {
            await (returning ??= comeBack());
          }
        }
      },
      [Symbol.dispose]: (): void => {
        isEnded = true;
        this.#begun--;
        end();
        free();
      },
    };
  }

  #makeExempt(end: () => void): Slot {
    this.#withoutSlot++;
    return {
      yieldDuring: (wait) => wait(),
      [Symbol.dispose]: (): void => {
        this.#withoutSlot--;
        end();
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

  async #takeSlot(
    queue: (() => void)[],
    ...signals: readonly AbortSignal[]
  ): Promise<boolean> {
    if (signals.some(({ aborted }) => aborted)) return false;
    const { promise, resolve } = Promise.withResolvers<true>();
    let isTaken = false;
    const take = (): void => {
      isTaken = true;
      resolve(true);
    };
    queue.push(take);
    this.#passOn();
    if (isTaken || await waitUntil(promise, ...signals)) return true;
    const at = queue.indexOf(take);
    if (at !== -1) queue.splice(at, 1);
    else {
      // It got the slot at the same time.
      this.#slots--;
      if (queue !== this.#returning) this.#begun--;
      this.#passOn();
    }
    return false;
  }

  /** Passes free slots on to the tasks that wait longest. */
  #passOn(): void {
    while (this.#slots < this.#limit) {
      const back = this.#returning.shift();
      const mayBegin = this.#begun < this.#mostBegun;
      const next = back ?? (mayBegin ? this.#shift() : undefined);
      if (next === undefined) return;
      this.#slots++;
      if (back === undefined) this.#begun++;
      next();
    }
  }

  #shift(): (() => void) | undefined {
    return this.#queues.first.shift() ?? this.#queues["in order"].shift();
  }
}

/** How long exclusive work keeps other work waiting at a time, in ms. */
const GATE_MS = 10_000;

/** Work that waits for its turn. */
interface Waiter {
  readonly isExclusive: boolean;
  readonly begin: () => void;
}

/**
 * A read-write lock: shared work runs at the same time, exclusive work alone, in order of
 * arrival. While exclusive work waits for slow work, later work passes it regularly,
 * because later work might end the slow work.
 */
export class ReadWriteLock {
  readonly #gateMs: number;
  readonly #waiting: Waiter[] = [];
  #running = 0;
  #isExclusive = false;

  /** @param gateMs How long exclusive work keeps other work waiting at a time: 10 s by default */
  constructor(gateMs = GATE_MS) {
    this.#gateMs = gateMs;
  }

  /**
   * Waits until it is a task's turn.
   *
   * @param signal Ends the wait
   * @returns The lock, held until disposal; undefined if the signal was aborted first
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
