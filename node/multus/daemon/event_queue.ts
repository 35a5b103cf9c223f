/**
 * Events on their way to the API server, for which no pod waits.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { deadline, pause, waitUntil } from "../../../cni/invoke/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import type { ApiRequest } from "../../../kube/request.ts";
import type { ForwardedAnswer } from "./forwarder.ts";
import { pauseAfter } from "./pauses.ts";

/** How many events wait at most. */
const MAX_EVENTS = 1000;
/** Time for one of them, in milliseconds. */
const TIMEOUT_MS = 5000;

/** How long the first ones wait: the status of the pod that they are about goes first. */
const COURTESY_MS = 100;

/** Where events go. */
export interface EventQueueOptions {
  readonly forward: (
    request: ApiRequest,
    timeoutMs: number,
  ) => Promise<ForwardedAnswer>;
  readonly log: Pick<Log, "info" | "warn">;
  /** How many events wait at most; 1000 unless told. */
  readonly maxEvents?: number;
}

/** Posts events, one after the other; the oldest are given up if they are too many. */
export class EventQueue {
  readonly #options: EventQueueOptions;
  readonly #events: ApiRequest[] = [];
  #arrived = Promise.withResolvers<void>();
  #dropped = 0;

  /** Makes one with nothing in it. */
  constructor(options: EventQueueOptions) {
    this.#options = options;
  }

  /** How many events wait. */
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
    this.#events.push(event);
    this.#arrived.resolve();
  }

  /** Posts what comes, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      const [event] = this.#events;
      if (event === undefined) {
        await waitUntil(this.#waitForMore(), signal);
        await pause(COURTESY_MS, signal);
        continue;
      }
      const isDone = await waitUntil(this.#post(event), signal);
      failures = isDone ? 0 : failures + 1;
      if (failures > 0) await pause(pauseAfter(failures), signal);
    }
  }

  /** Posts what is left, as far as there is time. */
  async finish(withinMs: number): Promise<void> {
    const signal = deadline(withinMs);
    await waitUntil(this.#postAll(), signal);
    const { length } = this.#events;
    if (length > 0) {
      this.#options.log.warn("Events are lost", { count: length });
    }
  }

  async #postAll(): Promise<void> {
    for (const event of [...this.#events]) {
      if (!await this.#post(event)) return;
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

  /** @returns Whether it is dealt with: else it may be tried again */
  async #post(event: ApiRequest): Promise<boolean> {
    const { forward, log } = this.#options;
    try {
      const { status, text } = await forward(event, TIMEOUT_MS);
      if (status === 429 || status >= 500) return false;
      if (status > 299) {
        log.info("The API server does not take an event", { status, text });
      }
    } catch (error) {
      log.info("Cannot post an event", { error: describeError(error) });
      return false;
    }
    // It may have been given up meanwhile.
    if (this.#events[0] === event) this.#events.shift();
    return true;
  }
}
