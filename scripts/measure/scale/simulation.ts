/**
 * Simulates attachments that take addresses from whereabouts' pools at the same
 * time. The choice of addresses and the pauses are the plugin's; network and API
 * server are a model in virtual time, which a seed repeats:
 *
 * - A message takes 0.5 to 2 ms each way.
 * - Writes to one object are serialized: 2 ms, and 4 µs for each record in it.
 *   A write to another object does not wait for them.
 * - A test that fails takes 0.5 ms, once the write that it lost to is done. A
 *   read takes 2 µs for each record.
 *
 * @module
 */

import { chooseAddress } from "../../../ipam/whereabouts/allocator.ts";
import { pauseMs } from "../../../ipam/whereabouts/api.ts";
import { type Range, resolveRange } from "../../../ipam/whereabouts/range.ts";
import { Cidr } from "../../../net/cidr.ts";
import { createRandom } from "../../../tests/_harness/repetition.ts";

/** The attachments of a simulation. */
interface Scenario {
  /** Attachments. */
  readonly adds: number;
  /** Pools, to which the attachments are distributed evenly. */
  readonly pools: number;
  /** Attachments begin within this time, in milliseconds; 0 for all at once. */
  readonly withinMs: number;
  /** Whether every try takes the lowest free address, unlike the plugin's. */
  readonly keepsToLowest?: boolean;
  readonly seed?: number;
}

/** The outcome, for all attachments. */
export interface Outcome {
  /** Requests per attachment, on average. */
  readonly requests: number;
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Attachments that took longer than the plugin allows. */
  readonly late: number;
  /** Addresses that were given to two attachments; 0 unless there is a fault. */
  readonly duplicates: number;
}

/** The plugin's time limit of an ADD, in milliseconds. */
const LIMIT_MS = 60_000;

/** A pool: when each address was taken, and when the last write ends. */
class SimulatedPool {
  readonly takenAt = new Map<bigint, number>();
  #busyUntilMs = 0;

  /** Returns when a request that arrives now is done. */
  serve(nowMs: number, costMs: number): number {
    this.#busyUntilMs = Math.max(this.#busyUntilMs, nowMs) + costMs;
    return this.#busyUntilMs;
  }
}

const RANGE: Range = resolveRange(Cidr.parse("10.0.0.0/8"));

/** Runs a simulation. */
export function simulate(scenario: Scenario): Outcome {
  const { adds, withinMs, keepsToLowest = false, seed = 1 } = scenario;
  const random = createRandom(seed);
  const fraction = (): number => random.below(2 ** 30) / 2 ** 30;
  const travelMs = (): number => 0.5 + 1.5 * fraction();
  const pools = Array.from(
    { length: scenario.pools },
    () => new SimulatedPool(),
  );
  const queue = new EventQueue();
  const times: number[] = [];
  let requests = 0;
  const owners = new Set<string>();

  const start = (poolIndex: number, beginMs: number): void => {
    const pool = pools[poolIndex];
    if (pool === undefined) throw new Error("no such pool");
    const attempt = (number: number, nowMs: number): void => {
      requests++;
      queue.add(nowMs + travelMs(), (readMs) => {
        const doneMs = readMs + 0.002 * pool.takenAt.size;
        queue.add(
          doneMs + travelMs(),
          (seenMs) => write(number, readMs, seenMs),
        );
      });
    };
    const write = (number: number, readMs: number, nowMs: number): void => {
      const ip = chooseAddress({
        range: RANGE,
        attempt: keepsToLowest ? 0 : number,
        random: fraction,
        isTaken: (offset) => (pool.takenAt.get(offset) ?? Infinity) <= readMs,
      });
      if (ip === undefined) throw new Error("the range is full");
      const offset = ip.value - RANGE.cidr.network.value;
      requests++;
      queue.add(nowMs + travelMs(), (arrivedMs) => {
        const takenMs = pool.takenAt.get(offset);
        if (takenMs !== undefined) {
          // The server knows once the other write is done.
          const doneMs = Math.max(arrivedMs, takenMs) + 0.5;
          const againMs = pauseMs(number, fraction);
          const next = doneMs + travelMs() + againMs;
          queue.add(next, (nowMs) => attempt(number + 1, nowMs));
          return;
        }
        const doneMs = pool.serve(arrivedMs, 2 + 0.004 * pool.takenAt.size);
        pool.takenAt.set(offset, doneMs);
        // The reservation is an object of its own.
        requests++;
        const reservedMs = doneMs + travelMs() + travelMs() + 2 + travelMs();
        owners.add(`${poolIndex} ${offset}`);
        queue.add(reservedMs, (endMs) => times.push(endMs - beginMs));
      });
    };
    queue.add(beginMs, (nowMs) => attempt(0, nowMs));
  };

  for (let add = 0; add < adds; add++) {
    start(add % pools.length, withinMs * fraction());
  }
  queue.run();
  times.sort((a, b) => a - b);
  const at = (part: number): number =>
    times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;
  return {
    requests: requests / adds,
    medianMs: at(0.5),
    p99Ms: at(0.99),
    maxMs: at(1),
    late: times.filter((time) => time > LIMIT_MS).length,
    duplicates: adds - owners.size,
  };
}

/** Runs at a time. */
type Event = (nowMs: number) => void;

/** Events in the order of their times: a binary heap. */
class EventQueue {
  readonly #heap: [timeMs: number, event: Event][] = [];

  add(timeMs: number, event: Event): void {
    const heap = this.#heap;
    let at = heap.push([timeMs, event]) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (this.#timeOf(above) <= timeMs) break;
      this.#swap(at, above);
      at = above;
    }
  }

  /** Runs all events, and those that they add. */
  run(): void {
    for (let next; (next = this.#take()) !== undefined;) next[1](next[0]);
  }

  #take(): [number, Event] | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) {
      return first;
    }
    heap[0] = last;
    for (let at = 0;;) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      const below = this.#timeOf(right) < this.#timeOf(left) ? right : left;
      if (this.#timeOf(below) >= this.#timeOf(at)) return first;
      this.#swap(at, below);
      at = below;
    }
  }

  #timeOf(at: number): number {
    return this.#heap[at]?.[0] ?? Infinity;
  }

  #swap(one: number, other: number): void {
    const heap = this.#heap;
    const [left, right] = [heap[one], heap[other]];
    if (left === undefined || right === undefined) return;
    heap[one] = right;
    heap[other] = left;
  }
}
