/**
 * What is measured, and its summary: a row for each step of each contestant.
 *
 * @module
 */

import type { Cell } from "./plan.ts";
import { GO, OURS } from "./subject.ts";

/** The measures, in the order in which they are shown. */
const MEASURES = [
  /** From just before the process is made until it has been waited for. */
  "wallMs",
  /** Processor time, user and system, of the process and its children. */
  "cpuMs",
  /** The largest resident set among the process and its children. */
  "peakKib",
  /** Programs that were begun, the process itself included. */
  "execs",
  /** System calls of the process and its children. */
  "syscalls",
] as const;

/** One of {@linkcode MEASURES}. */
type Measure = typeof MEASURES[number];

/** Those that were taken, for each needs a run of its own kind. */
export type Measures = Readonly<Partial<Record<Measure, number>>>;

/** Joins what was measured of steps that follow each other: peaks do not add up. */
export function combineMeasures(steps: readonly Measures[]): Measures {
  const combined: Partial<Record<Measure, number>> = {};
  for (const measure of MEASURES) {
    const values = steps.flatMap((step) => step[measure] ?? []);
    if (values.length === 0) continue;
    combined[measure] = measure === "peakKib"
      ? Math.max(...values)
      : values.reduce((sum, value) => sum + value, 0);
  }
  return combined;
}

/** The middle of a series, and how far it spreads; to a thousandth. */
export interface Spread {
  readonly median: number;
  /** A quarter of the values is below. */
  readonly q1: number;
  /** A quarter of the values is above. */
  readonly q3: number;
  readonly min: number;
}

/**
 * Describes a series by order statistics, which a few outliers do not move.
 *
 * @throws {RangeError} If `values` is empty
 */
export function describeSpread(values: readonly number[]): Spread {
  if (values.length === 0) {
    throw new RangeError("Cannot describe a series without values");
  }
  const sorted = values.toSorted((a, b) => a - b);
  const at = (fraction: number): number => round(quantile(sorted, fraction));
  return { median: at(0.5), q1: at(0.25), q3: at(0.75), min: at(0) };
}

/** Interpolates between the two nearest values, as most programs do (R's type 7). */
function quantile(sorted: readonly number[], fraction: number): number {
  const position = (sorted.length - 1) * fraction;
  const below = sorted[Math.floor(position)] ?? 0;
  const above = sorted[Math.ceil(position)] ?? 0;
  return below + (above - below) * (position % 1);
}

/** Rounds to a thousandth. */
export function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/**
 * Divides each value by the one that was measured right beside it. What slows a
 * machine down for a while slows both, and is not in the ratio.
 *
 * @throws {RangeError} If the series are not of one length
 */
export function pairRatios(
  values: readonly number[],
  references: readonly number[],
): number[] {
  if (values.length !== references.length) {
    throw new RangeError(
      `Cannot pair ${values.length} values with ${references.length}`,
    );
  }
  return values.map((value, index) => value / (references[index] ?? NaN));
}

/** All values of one step of one contestant, in the order of rounds. */
export interface Series {
  /** The contestant. */
  readonly who: string;
  /** The step that it ran. */
  readonly step: string;
  readonly values: Readonly<Partial<Record<Measure, readonly number[]>>>;
}

type Values = Partial<Record<Measure, number[]>>;

/** Collects values. */
export class Recording {
  /** By contestant, then by step. */
  readonly #values = new Map<string, Map<string, Values>>();
  /** In the order in which they were first done. */
  readonly #steps = new Set<string>();

  /** Adds what a round measured. */
  add(who: string, step: string, measures: Measures): void {
    this.#steps.add(step);
    const steps = this.#values.get(who) ?? new Map<string, Values>();
    this.#values.set(who, steps);
    const values = steps.get(step) ?? {};
    steps.set(step, values);
    for (const measure of MEASURES) {
      const value = measures[measure];
      if (value !== undefined) (values[measure] ??= []).push(value);
    }
  }

  /**
   * Forgets a contestant that failed: what it did until then cannot be paired.
   *
   * @param verb Forgets only this and its parts, if given
   */
  drop(who: string, verb?: string): void {
    const steps = this.#values.get(who);
    for (const step of [...steps?.keys() ?? []]) {
      if (verb === undefined || step.split(" ")[0] === verb) {
        steps?.delete(step);
      }
    }
  }

  /** Lists what there is: by step, and contestants beside each other. */
  list(): Series[] {
    return [...this.#steps].flatMap((step) =>
      [...this.#values].flatMap(([who, steps]) => {
        const values = steps.get(step);
        return values === undefined ? [] : [{ who, step, values }];
      })
    );
  }
}

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
interface Ratio {
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
