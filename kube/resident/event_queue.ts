/**
 * Posts events to the API server in the background, so that no pod waits for
 * them.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { JoinedSignal, pause, waitUntil } from "../../base/deadline.ts";
import type { Log } from "../../base/log/log.ts";
import { KubeError } from "../kube_error.ts";
import { backoff, type TimeLimits } from "../retry.ts";
import type { Event } from "../types.ts";

/** Maximum number of queued events. */
const MAX_EVENTS = 1000;
/**
 * Maximum number of attempts for an event that the API server refuses
 * temporarily.
 *
 * Source: client-go tools/record/event.go `maxTriesPerEvent`.
 */
const MAX_TRIES = 12;
/** Time limit of one attempt, in milliseconds. */
const TIMEOUT_MS = 5000;
/** Time for the calls that an event is about to be answered, in milliseconds. */
const CALLS_FIRST_MS = 100;
/** Pauses after failures, in milliseconds. */
const FIRST_PAUSE_MS = 500, LONGEST_PAUSE_MS = 30_000;

/** Options of a queue. */
export interface EventQueueOptions {
  /**
   * Posts an event.
   *
   * @throws {KubeError}
   */
  readonly post: (event: Event, limits: TimeLimits) => Promise<void>;
  readonly log: Pick<Log, "info" | "warn">;
  /** Maximum number of queued events; 1000 by default. */
  readonly maxEvents?: number;
  /** Like {@linkcode MAX_TRIES}. */
  readonly maxTries?: number;
}

/** An event, and the number of its refusals. */
interface Entry {
  readonly event: Event;
  refusals: number;
}

/** The outcome of an attempt. */
type Outcome = "settled" | "refused" | "unanswered";

/**
 * Posts events in sequence. An event that the API server refuses
 * temporarily goes to the end of the queue. If the queue is full, the oldest
 * events are dropped.
 */
export class EventQueue {
  readonly #options: EventQueueOptions;
  readonly #entries: Entry[] = [];
  #arrived = Promise.withResolvers<void>();
  #dropped = 0;

  /** Creates an empty queue. */
  constructor(options: EventQueueOptions) {
    this.#options = options;
  }

  /** Number of queued events. */
  get size(): number {
    return this.#entries.length;
  }

  /** Adds an event. */
  add(event: Event): void {
    const { maxEvents = MAX_EVENTS, log } = this.#options;
    if (this.#entries.length >= maxEvents) {
      this.#entries.shift();
      if (this.#dropped++ === 0) {
        log.warn("Dropping events: the queue is full", { size: maxEvents });
      }
    }
    this.#entries.push({ event, refusals: 0 });
    this.#arrived.resolve();
  }

  /** Posts queued events until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      const [entry] = this.#entries;
      if (entry === undefined) {
        await waitUntil(this.#waitForMore(), signal);
        // A request takes milliseconds of this thread.
        await pause(CALLS_FIRST_MS, signal);
        continue;
      }
      const outcome = await waitUntil(this.#post(entry), signal);
      failures = outcome === "settled" ? 0 : failures + 1;
      if (failures === 0) continue;
      await pause(backoff(failures, FIRST_PAUSE_MS, LONGEST_PAUSE_MS), signal);
    }
  }

  /** Posts the remaining events within a time limit. */
  async finish(withinMs: number): Promise<void> {
    using limit = new JoinedSignal(withinMs);
    await waitUntil(this.#postAll(), limit.signal);
    const { length: count } = this.#entries;
    if (count > 0) this.#options.log.warn("Events are lost", { count });
  }

  async #postAll(): Promise<void> {
    for (const entry of [...this.#entries]) {
      if (await this.#post(entry) === "unanswered") return;
    }
  }

  #waitForMore(): Promise<void> {
    if (this.#dropped > 0) {
      const count = this.#dropped;
      this.#options.log.warn("Events were dropped", { count });
      this.#dropped = 0;
    }
    this.#arrived = Promise.withResolvers();
    return this.#arrived.promise;
  }

  async #post(entry: Entry): Promise<Outcome> {
    const { post, log } = this.#options;
    const limits = { perTryMs: TIMEOUT_MS, overallMs: TIMEOUT_MS };
    try {
      await post(entry.event, limits);
    } catch (error) {
      const status = error instanceof KubeError ? error.status : 0;
      if (status === 429 || status >= 500) {
        this.#postpone(entry, error);
        return "refused";
      }
      // 409: an earlier attempt succeeded after all.
      if (status !== 409) {
        log.info("Cannot post an event", { error: describeError(error) });
      }
      if (status === 0) return "unanswered";
    }
    this.#remove(entry);
    return "settled";
  }

  #postpone(entry: Entry, error: unknown): void {
    const { maxTries = MAX_TRIES, log } = this.#options;
    if (!this.#remove(entry)) return;
    if (++entry.refusals < maxTries) this.#entries.push(entry);
    else log.info("Cannot post an event", { error: describeError(error) });
  }

  /**
   * @returns Whether it was still queued: it might have been dropped in between
   */
  #remove(entry: Entry): boolean {
    const index = this.#entries.indexOf(entry);
    if (index >= 0) this.#entries.splice(index, 1);
    return index >= 0;
  }
}
