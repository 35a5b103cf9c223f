/**
 * The environment that all measurements share.
 *
 * @module
 */

import { CallFailure, type CallRunner } from "./call.ts";
import type { Rounds } from "./plan.ts";
import type { Subject } from "./subject.ts";
import type { Series } from "./summary.ts";

/** The environment of a measurement. */
export interface Workbench {
  readonly subjects: readonly Subject[];
  readonly runner: CallRunner;
  /** The command that runs a script of this project. */
  readonly deno: readonly string[];
  /** Path of strace; without it system calls are not counted. */
  readonly strace: string | undefined;
  readonly rounds: Rounds;
  /** A directory in memory. */
  readonly directory: string;
  /** Reports that something cannot be measured. */
  readonly note: (text: string) => void;
  /** Reports progress. */
  readonly progress: (text: string) => void;
}

/** The measurements of a cell. */
export interface CellResult {
  readonly name: string;
  readonly series: readonly Series[];
}

/**
 * How long the kernel is left alone between contestants, so that what it still
 * does for the one is not counted against the next.
 */
export const SETTLE_MS = 20;

/**
 * Reports whether `work` finished, and notes the reason if a call failed.
 *
 * @param what As in "ptp, 0 containers, ours"
 */
export function attempt(
  { note }: Workbench,
  what: string,
  work: () => void,
): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (!(error instanceof CallFailure)) throw error;
    note(`Skipped ${what}: ${error.message}`);
    return false;
  }
}
