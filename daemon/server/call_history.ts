/**
 * Outcomes of the calls that came to the daemon, for operators.
 *
 * @module
 */

import type { EndedCall } from "./call.ts";
import { DECLINE_REASONS, type DeclineReason } from "./decline_reasons.ts";

/** How many calls `recent` counts. */
const RECENT = 100;

/** A reason, and the calls that the daemon declined for it. */
export interface ReasonRow {
  readonly reason: DeclineReason;
  /** An operator's remedy. */
  readonly advice: string;
  /** Since the daemon started. */
  readonly count: number;
  /** Among the last {@linkcode RECENT} calls. */
  readonly recent: number;
  /** The time of the last of these calls, in RFC 3339 format. */
  readonly lastAt: string;
  /** The plugin and the command of the last of these calls, if the daemon has read them. */
  readonly lastCall?: string;
}

/** Outcomes of the calls. */
export interface HistoryDocument {
  /** Calls that the daemon has run to their end. */
  readonly done: number;
  /** Calls that the daemon has run and that failed. */
  readonly failed: number;
  /** Calls that were declined. */
  readonly left: number;
  /** The last calls, run or declined; at most 100. */
  readonly recent: { readonly calls: number; readonly left: number };
  /** Why calls were declined, the latest reason first. */
  readonly reasons: readonly ReasonRow[];
}

interface Entry {
  count: number;
  lastMs: number;
  lastCall?: string | undefined;
}

/** Counts calls. */
export class CallHistory {
  readonly #entries = new Map<DeclineReason, Entry>();
  /** Reasons of the last calls; undefined for a call that the daemon ran. */
  readonly #recent: (DeclineReason | undefined)[] = [];
  #done = 0;
  #failed = 0;

  /** Counts a call that the daemon has run. */
  addDone({ code }: Pick<EndedCall, "code">): void {
    if (code < 0) return; // It counts as declined.
    this.#done++;
    if (code > 0) this.#failed++;
    this.#remember(undefined);
  }

  /** Counts a call that was declined; `call` is such as `ptp ADD`. */
  addDeclined(reason: DeclineReason, call?: string): void {
    const count = (this.#entries.get(reason)?.count ?? 0) + 1;
    this.#entries.set(reason, { count, lastMs: Date.now(), lastCall: call });
    this.#remember(reason);
  }

  #remember(reason: DeclineReason | undefined): void {
    this.#recent.push(reason);
    if (this.#recent.length > RECENT) this.#recent.shift();
  }

  /** Describes the calls so far. */
  describe(): HistoryDocument {
    const reasons = [...this.#entries]
      .toSorted(([, left], [, right]) => right.lastMs - left.lastMs)
      .map(([reason, { count, lastMs, lastCall }]) => ({
        reason,
        advice: DECLINE_REASONS[reason],
        count,
        recent: this.#recent.filter((each) => each === reason).length,
        lastAt: new Date(lastMs).toISOString(),
        ...lastCall !== undefined && { lastCall },
      }));
    return {
      done: this.#done,
      failed: this.#failed,
      left: reasons.reduce((sum, { count }) => sum + count, 0),
      recent: {
        calls: this.#recent.length,
        left: this.#recent.filter((each) => each !== undefined).length,
      },
      reasons,
    };
  }
}
