/**
 * The loop of the node daemon's own work, which no call requests: it receives events,
 * waits until they are due, works, and rests. It also sweeps the whole node regularly.
 *
 * @module
 */

import { deadline, pause, waitUntil } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { EndedCall } from "../../daemon/server/call.ts";
import type { Calls } from "../../daemon/server/calls.ts";
import type { Gauge } from "../../daemon/server/metrics.ts";
import type { StateDocument } from "../../daemon/server/state_handler.ts";

/** Time between two sweeps of the whole node, in ms. */
const SWEEP_MS = 10 * 60_000;
/** Time from a failed round to the next sweep, in ms; it doubles with each failure. */
const RETRY_MS = 10_000;

/** Options of every {@linkcode Reconciler}. */
export interface ReconcilerOptions {
  readonly log: Pick<Log, "info" | "warn" | "error">;
  /** See {@linkcode Reconciler.restMs}. */
  readonly restMs?: number;
  /** See {@linkcode SWEEP_MS}. */
  readonly sweepMs?: number;
  /** See {@linkcode RETRY_MS}. */
  readonly retryMs?: number;
}

/** One round of work. */
export interface Round {
  /** Whether the round is due without an event. */
  readonly isSweep: boolean;
  /** Reports whether the next round may begin now. */
  readonly mayBeginAnother: () => boolean;
  /** Counts the events since the start as a round of their own, which this one handles. */
  readonly beginAnother: () => void;
  readonly calls: Pick<Calls, "whileIdle">;
  readonly signal: AbortSignal;
}

/**
 * Work of the node daemon: at the start, after events, and every ten minutes. A failed
 * round does not return its events, so a sweep follows soon.
 */
export abstract class Reconciler<
  Name extends "leftovers" | "repairs" = "leftovers" | "repairs",
  Options extends ReconcilerOptions = ReconcilerOptions,
> {
  /** The key in the daemon's state. */
  abstract readonly name: Name;
  /** The log message if a round fails. */
  protected abstract readonly failure: string;
  /**
   * The shortest time between the starts of two rounds, in ms, on average: the second
   * round may begin earlier, because other programs often work in two steps.
   */
  protected abstract readonly restMs: number;
  protected readonly options: Options;
  /** Resources that the reconciler closes when it stops. */
  protected readonly stack: DisposableStack = new DisposableStack();
  protected rounds = 0;
  /** When the last round ended, and why it failed. */
  protected last: { readonly lastAt?: string; readonly problem?: string } = {};
  #wake = Promise.withResolvers<true>();
  /** The starts of the last two rounds, in ms of the process's clock; the latest first. */
  #starts: readonly [lastMs: number, beforeMs: number] = [-Infinity, -Infinity];

  /** Creates the reconciler without events. */
  constructor(options: Options) {
    this.options = options;
  }

  /** Records a call that has ended. */
  abstract note(call: EndedCall): void;

  /** Returns when the next event is due, in ms of the process's clock; Infinity without events. */
  protected abstract dueAt(): number;

  /** Handles the events that are due; returns whether it had to read the node. */
  protected abstract work(round: Round): Promise<boolean>;

  /** Describes the work so far. */
  abstract describe(): NonNullable<StateDocument[Name]>;

  /** Lists values for the daemon's metrics. */
  abstract listGauges(): Gauge[];

  /** Works until the signal. */
  async run(calls: Round["calls"], signal: AbortSignal): Promise<void> {
    using _stack = this.stack;
    const { sweepMs = SWEEP_MS, retryMs = RETRY_MS } = this.options;
    let failures = 0;
    for (let sweepAt = performance.now(); !signal.aborted;) {
      const now = performance.now();
      const isSweep = now >= sweepAt;
      if (isSweep) sweepAt = now + sweepMs;
      if (isSweep || now >= this.dueAt()) {
        const before = this.#starts;
        this.#noteStart(now);
        const round = {
          ...{ isSweep, calls, signal },
          mayBeginAnother: () => performance.now() >= this.#nextMs,
          beginAnother: () => this.#beginAnother(),
        };
        if (!await this.#tryRound(round)) {
          this.#starts = before;
          continue;
        }
        failures = this.last.problem === undefined ? 0 : failures + 1;
        if (failures > 0) {
          const retryAt = performance.now() + retryMs * 2 ** (failures - 1);
          sweepAt = Math.min(sweepAt, retryAt);
        }
        await pause(Math.max(this.#nextMs - performance.now(), 0), signal);
      } else {
        this.#wake = Promise.withResolvers();
        const next = deadline(Math.min(sweepAt, this.dueAt()) - now);
        await waitUntil(this.#wake.promise, next, signal);
      }
    }
  }

  /** Returns when the next round may begin, in ms of the process's clock. */
  get #nextMs(): number {
    const [, beforeMs] = this.#starts;
    return beforeMs + 2 * (this.options.restMs ?? this.restMs);
  }

  #noteStart(now: number): void {
    const [lastMs] = this.#starts;
    this.#starts = [now, lastMs];
  }

  #beginAnother(): void {
    this.#noteStart(performance.now());
    this.rounds++;
  }

  async #tryRound(round: Round): Promise<boolean> {
    try {
      if (!await this.work(round)) return false;
      this.last = {};
    } catch (error) {
      if (round.signal.aborted) return false;
      this.fail(error, "warn");
    }
    this.rounds++;
    this.last = { ...this.last, lastAt: new Date().toISOString() };
    return true;
  }

  /** Ends the wait for the next event, because the time of the next one has changed. */
  protected wake(): void {
    this.#wake.resolve(true);
  }

  /** Records a problem, and logs it once. */
  protected fail(error: unknown, level: "warn" | "error"): void {
    const problem = describeError(error);
    const { last: { problem: known }, failure, options: { log } } = this;
    if (problem !== known) log[level](failure, { error: problem });
    this.last = { ...this.last, problem };
  }
}
