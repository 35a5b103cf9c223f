/**
 * The loop of what the node daemon does by itself: it hears events, waits until they
 * are due, works, and rests; and it sweeps the whole node now and then.
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

/** How often the whole node is looked at although nothing was heard, in ms. */
const SWEEP_MS = 10 * 60_000;
/** How long after a round that failed the next sweep comes, in ms; then twice that. */
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

/** One look at the node. */
export interface Round {
  /** Whether it is due although nothing was heard. */
  readonly isSweep: boolean;
  /** Reports whether another round may begin now. */
  readonly mayBeginAnother: () => boolean;
  /** Begins another round within this one, which handles what was heard since. */
  readonly beginAnother: () => void;
  /** The daemon's. */
  readonly calls: Pick<Calls, "whileIdle">;
  readonly signal: AbortSignal;
}

/**
 * Work of the node daemon: at the start, after events, and every ten minutes. A round
 * that fails has taken what it was to handle, so a sweep follows soon.
 */
export abstract class Reconciler<
  Name extends "leftovers" | "repairs" = "leftovers" | "repairs",
  Options extends ReconcilerOptions = ReconcilerOptions,
> {
  /** Its key in the daemon's state. */
  abstract readonly name: Name;
  /** What the log says if a round fails. */
  protected abstract readonly failure: string;
  /**
   * The least time between the starts of two rounds, in ms, on average: the second of
   * two may begin earlier, because other programs often do something in two steps.
   */
  protected abstract readonly restMs: number;
  protected readonly options: Options;
  /** Is disposed of at the end. */
  protected readonly stack: DisposableStack = new DisposableStack();
  protected rounds = 0;
  /** When the last round ended, and why it failed. */
  protected last: { readonly lastAt?: string; readonly problem?: string } = {};
  #wake = Promise.withResolvers<true>();
  /** When the last two rounds began, in ms of the process's clock; the last one first. */
  #starts: readonly [lastMs: number, beforeMs: number] = [-Infinity, -Infinity];

  /** Starts with nothing heard. */
  constructor(options: Options) {
    this.options = options;
  }

  /** Notes a call that has ended. */
  abstract note(call: EndedCall): void;

  /** When what it has heard is due, in ms of the process's clock; Infinity for nothing. */
  protected abstract dueAt(): number;

  /** Works on what is due; returns whether it had to look at the node. */
  protected abstract work(round: Round): Promise<boolean>;

  /** Describes what it has done. */
  abstract describe(): NonNullable<StateDocument[Name]>;

  /** Values for the daemon's metrics. */
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

  /** When the next round may begin, in ms of the process's clock. */
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

  /** Has it look again at what is due. */
  protected wake(): void {
    this.#wake.resolve(true);
  }

  /** Notes a problem; logs it once. */
  protected fail(error: unknown, level: "warn" | "error"): void {
    const problem = describeError(error);
    const { last: { problem: known }, failure, options: { log } } = this;
    if (problem !== known) log[level](failure, { error: problem });
    this.last = { ...this.last, problem };
  }
}
