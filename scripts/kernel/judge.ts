/**
 * Judges a boot of the kernel by what it printed and how it ended.
 *
 * @module
 */

import { findTally, type Tally } from "../tally.ts";
import type { BootEnd } from "./boot.ts";

/** The counts of a boot, and an explanation. */
export interface BootVerdict {
  readonly tally: Tally;
  /** What is wrong, or why the tests were skipped; empty if nothing is. */
  readonly message: string;
}

/** The kernel logs this when it starts the first process. */
const STARTED = /^Run \S+ as init process$/m;

/**
 * Linux before 6.13 logs this on a processor with AMX: a process has more
 * registers than the kernel has room for, so that none can begin.
 */
const CANNOT_START = /ptrace set fp regs failed, errno = 14$/m;

/** How many lines of the kernel's log tell why it ended. */
const SOME_LINES = 12;

/**
 * Judges a boot. Where the kernel does not even start, as in a container that
 * forbids ptrace(2), or cannot start any process, the tests are skipped; every later end without a count of
 * the tests is a failure. So is a run without any test, which proves nothing.
 */
export function judgeBoot({ output, log, stopped }: BootEnd): BootVerdict {
  const tally = findTally(output);
  if (tally !== undefined && stopped === undefined) {
    if (tally.passed + tally.failed > 0) return { tally, message: "" };
    return { tally: { ...tally, failed: 1 }, message: "No test was run" };
  }
  const tail = log.trimEnd().split("\n").slice(-SOME_LINES).join("\n");
  const hasStarted = output !== "" ||
    STARTED.test(log) && !CANNOT_START.test(log);
  if (!hasStarted && stopped === undefined) {
    return {
      tally: { passed: 0, failed: 0, skipped: 1 },
      message: `Skipped: User-mode Linux does not boot here:\n${tail}`,
    };
  }
  const why = stopped ?? "it ended before the tests did";
  const counted = tally ?? { passed: 0, failed: 0, skipped: 0 };
  return {
    tally: { ...counted, failed: counted.failed + 1 },
    message: `FAILED: the kernel: ${why}. It logged last:\n${tail}`,
  };
}
