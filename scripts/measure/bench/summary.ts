/**
 * Summary of the measurements: a row for each step of each contestant.
 *
 * @module
 */

import type { Cell } from "./plan.ts";
import type { Series } from "./recording.ts";
import {
  describeSpread,
  pairRatios,
  round,
  type Spread,
} from "./statistics.ts";
import { GO, OURS } from "./subject.ts";

/** A row of the results. */
export interface Row {
  /** The cell. */
  readonly cell: string;
  readonly chain?: string;
  readonly masquerade?: boolean;
  /** Containers that were on the node already. */
  readonly containers?: number;
  /** Concurrent attachments; the figures are for all of them together. */
  readonly parallel?: number;
  /** What was done: a verb, with the plugin if it is a part of the chain. */
  readonly step: string;
  /** The contestant. */
  readonly who: string;
  /** How many times it was measured. */
  readonly rounds: number;
  readonly wallMs: Spread;
  /** User and system, children included. */
  readonly cpuMs: Spread;
  /** Median of the largest resident set, children included. */
  readonly peakKib?: number;
  /** Programs begun. */
  readonly execs?: number;
  readonly syscalls?: number;
  /** Attachments done in a second, of several at the same time. */
  readonly perSecond?: number;
  /** Beside another one, round by round. */
  readonly ratio?: Ratio;
}

/** A comparison; less than 1 is less than the other one takes. */
export interface Ratio {
  readonly to: string;
  readonly wallMs: Spread;
  readonly cpuMs: Spread;
}

/** Builds the rows of a cell, without incomplete series. */
export function summarize(
  name: string,
  series: readonly Series[],
  cell?: Cell,
): Row[] {
  const timed = series.filter(({ values }) => values.wallMs?.length);
  const reference = chooseReference(timed.map(({ who }) => who));
  return timed.map((one) => {
    const { who, step, values } = one;
    const other = timed.find((other) =>
      other.who === reference && other.step === step
    );
    return {
      cell: name,
      ...describeCell(cell),
      step,
      who,
      rounds: values.wallMs?.length ?? 0,
      wallMs: describeSpread(values.wallMs ?? []),
      cpuMs: describeSpread(values.cpuMs ?? []),
      ...medianOf(one, "peakKib"),
      ...medianOf(one, "execs"),
      ...medianOf(one, "syscalls"),
      ...rate(one, cell?.parallel ?? 1),
      ...other === undefined || other === one ? {} : compare(one, other),
    };
  });
}

/** Chooses the baseline: the Go plugins, else any other, else ours. */
function chooseReference(contestants: readonly string[]): string | undefined {
  const others = contestants.filter((who) => who.split(" ")[0] !== OURS);
  return contestants.includes(GO) ? GO : others[0] ?? contestants[0];
}

function describeCell(cell: Cell | undefined): Partial<Row> {
  if (cell === undefined) return {};
  const { chain, masquerade, containers, parallel } = cell;
  return { chain, masquerade, containers, parallel };
}

/** Figures that hardly differ from run to run. */
type Counted = "peakKib" | "execs" | "syscalls";

function medianOf(
  { values }: Series,
  measure: Counted,
): Partial<Record<Counted, number>> {
  const list = values[measure] ?? [];
  return list.length === 0 ? {} : { [measure]: describeSpread(list).median };
}

function rate({ values }: Series, parallel: number): Partial<Row> {
  if (parallel === 1) return {};
  const { median } = describeSpread(values.wallMs ?? []);
  return { perSecond: round(1000 * parallel / median) };
}

function compare(
  one: Series,
  other: Series,
): { readonly ratio: Ratio } {
  const spread = (measure: "wallMs" | "cpuMs"): Spread =>
    describeSpread(
      pairRatios(one.values[measure] ?? [], other.values[measure] ?? []),
    );
  const ratio = {
    to: other.who,
    wallMs: spread("wallMs"),
    cpuMs: spread("cpuMs"),
  };
  return { ratio };
}
