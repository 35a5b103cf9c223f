/**
 * The whole document of a run, as `bench.json` has it.
 *
 * @module
 */

import type { Machine } from "./machine.ts";
import type { Row } from "./summary.ts";

/** The results of a run. */
export interface Report {
  readonly machine: Machine;
  /** Whether it is about growth, and whether it was a quick one. */
  readonly growth: boolean;
  readonly quick: boolean;
  readonly filter: string;
  /** Skipped cells, and why. */
  readonly notes: readonly string[];
  readonly rows: readonly Row[];
}

/** Groups the rows by cell, in their order. */
export function groupByCell(
  rows: readonly Row[],
): [cell: string, rows: Row[]][] {
  return [...Map.groupBy(rows, ({ cell }) => cell)];
}
