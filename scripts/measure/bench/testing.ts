/**
 * A sample report for tests.
 *
 * @module
 */

import type { Report } from "./report.ts";
import type { Row, Spread } from "./summary.ts";

/** Returns the spread of values that are all the same. */
export function spreadOf(median: number): Spread {
  return { median, q1: median, q3: median };
}

/** Builds a row of our ptp with some values changed. */
export function sampleRow(more: Partial<Row> = {}): Row {
  return {
    cell: "ptp, 0 containers",
    chain: "ptp",
    masquerade: false,
    containers: 0,
    parallel: 1,
    step: "ADD",
    who: "ours",
    rounds: 3,
    wallMs: { median: 25, q1: 24, q3: 26.5 },
    cpuMs: { median: 20, q1: 19, q3: 21 },
    ...more,
  };
}

/** Builds a report from rows. */
export function sampleReport(
  rows: readonly Row[],
  notes: string[] = [],
): Report {
  return {
    machine: {
      date: "2026-01-02T03:04Z",
      kernel: "6.1.0",
      architecture: "x86_64",
      cpu: "Fast One",
      cpus: 4,
      memoryMib: 8192,
      load: 0.25,
      deno: "2.9.6",
      versions: { ours: "v1.0.0", go: "v1.1.1" },
    },
    filter: "",
    notes,
    rows,
  };
}
