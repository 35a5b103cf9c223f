/**
 * Posts events to the API server in the background, so that no pod waits for
 * them.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { deadline, pause, waitUntil } from "../../../cni/deadline.ts";
import type { Log, LogFields } from "../../../cni/log.ts";
import type { ApiRequest } from "../../../kube/request.ts";
import type { ForwardedAnswer } from "./forwarder.ts";
import { pauseAfter } from "./pauses.ts";

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

/** Options of a queue. */
export interface EventQueueOptions {
  readonly forward: (
    request: ApiRequest,
    timeoutMs: number,
  ) => Promise<ForwardedAnswer>;
  readonly log: Pick<Log, "info" | "warn">;
  /** Maximum number of queued events; 1000 by default. */
  readonly maxEvents?: number;
  /** Like {@linkcode MAX_TRIES}. */
  readonly maxTries?: number;
}

/** An event, and the number of its refusals. */
interface Entry {
  readonly event: ApiRequest;
  refusals: number;
}

/** The outcome of an attempt. */
type Outcome = "settled" | "refused" | "unanswered";

/**
 * Posts events one after the other. An event that the API server refuses
 * temporarily goes to the end of the queue. If the queue is full, the oldest
 * events are dropped.
 */
export class EventQueue {
  readonly #options: EventQueueOptions;
  readonly #events: Entry[] = [];
  #arrived = Promise.withResolvers<void>();
  #dropped = 0;

  /** Creates an empty queue. */
  constructor(options: EventQueueOptions) {
    this.#options = options;
  }

  /** Number of queued events. */
  get size(): number {
    return this.#events.length;
  }

  /** Adds an event. */
  add(event: ApiRequest): void {
    const { maxEvents = MAX_EVENTS, log } = this.#options;
    if (this.#events.length >= maxEvents) {
      this.#events.shift();
      if (this.#dropped++ === 0) {
        log.warn("Events are dropped: too many wait", { waiting: maxEvents });
      }
    }
    this.#events.push({ event, refusals: 0 });
    this.#arrived.resolve();
  }

  /** Posts queued events until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      const [entry] = this.#events;
      if (entry === undefined) {
        await waitUntil(this.#waitForMore(), signal);
        continue;
      }
      const outcome = await waitUntil(this.#post(entry), signal);
      failures = outcome === "settled" ? 0 : failures + 1;
      if (failures > 0) await pause(pauseAfter(failures), signal);
    }
  }

  /** Posts the remaining events within a time limit. */
  async finish(withinMs: number): Promise<void> {
    const signal = deadline(withinMs);
    await waitUntil(this.#postAll(), signal);
    const { length } = this.#events;
    if (length > 0) {
      this.#options.log.warn("Events are lost", { count: length });
    }
  }

  async #postAll(): Promise<void> {
    for (const entry of [...this.#events]) {
      if (await this.#post(entry) === "unanswered") return;
    }
  }

  #waitForMore(): Promise<void> {
    this.#reportDropped();
    this.#arrived = Promise.withResolvers();
    return this.#arrived.promise;
  }

  #reportDropped(): void {
    if (this.#dropped === 0) return;
    const count = this.#dropped;
    this.#options.log.warn("Events were dropped", { count });
    this.#dropped = 0;
  }

  async #post(entry: Entry): Promise<Outcome> {
    const { forward, log } = this.#options;
    try {
      const { status, text } = await forward(entry.event, TIMEOUT_MS);
      if (status === 429 || status >= 500) {
        this.#postpone(entry, { status, text });
        return "refused";
      }
      // 409: an earlier attempt succeeded after all.
      if (status > 299 && status !== 409) {
        log.info("The API server does not take an event", { status, text });
      }
    } catch (error) {
      log.info("Cannot post an event", { error: describeError(error) });
      return "unanswered";
    }
    this.#remove(entry);
    return "settled";
  }

  #postpone(entry: Entry, answer: LogFields): void {
    const { maxTries = MAX_TRIES, log } = this.#options;
    if (!this.#remove(entry)) return;
    if (++entry.refusals < maxTries) this.#events.push(entry);
    else log.info("The API server does not take an event", answer);
  }

  /**
   * @returns Whether it was still queued: it may have been dropped meanwhile
   */
  #remove(entry: Entry): boolean {
    const index = this.#events.indexOf(entry);
    if (index >= 0) this.#events.splice(index, 1);
    return index >= 0;
  }
}
