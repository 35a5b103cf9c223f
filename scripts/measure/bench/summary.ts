/**
 * What was measured, and its summary: a row for each step of each candidate.
 *
 * @module
 */

import type { Times } from "./call.ts";
import type { Cell } from "./cells.ts";
import { GO, OURS } from "./subject.ts";

/** Adds up what steps took that follow each other. */
export function sumTimes(steps: readonly Times[]): Times {
  return steps.reduce(
    (sum, { wallMs, cpuMs }) => ({
      wallMs: sum.wallMs + wallMs,
      cpuMs: sum.cpuMs + cpuMs,
    }),
    { wallMs: 0, cpuMs: 0 },
  );
}

/** The middle of a series, and how far it spreads; to a thousandth. */
export interface Spread {
  readonly median: number;
  /** A quarter of the values is below. */
  readonly q1: number;
  /** A quarter of the values is above. */
  readonly q3: number;
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
  return { median: at(0.5), q1: at(0.25), q3: at(0.75) };
}

/** Interpolates between the two nearest values, as most programs do (R's type 7). */
function quantile(sorted: readonly number[], fraction: number): number {
  const position = (sorted.length - 1) * fraction;
  const below = sorted[Math.floor(position)] ?? 0;
  const above = sorted[Math.ceil(position)] ?? 0;
  return below + (above - below) * (position % 1);
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** What the rounds of a cell took. */
export class Recording {
  /** By step, in the order in which they were first done, then by candidate. */
  readonly #times = new Map<string, Map<string, Times[]>>();

  /** Adds what a round took. */
  add(who: string, step: string, times: Times): void {
    const series = this.#times.get(step) ?? new Map<string, Times[]>();
    this.#times.set(step, series);
    series.set(who, [...series.get(who) ?? [], times]);
  }

  /** Forgets a candidate that failed: what it did until then cannot be paired. */
  drop(who: string): void {
    for (const series of this.#times.values()) series.delete(who);
  }

  /** Returns a row for each step of each candidate. */
  summarize(name: string, cell?: Cell): Row[] {
    const all = [...this.#times.values()].flatMap((
      series,
    ) => [...series.keys()]);
    const reference = chooseReference(all);
    return [...this.#times].flatMap(([step, series]) => {
      const others = series.get(reference ?? "");
      return [...series].map(([who, times]): Row => ({
        cell: name,
        ...cell && describeCell(cell),
        step,
        who,
        rounds: times.length,
        wallMs: describeSpread(times.map(({ wallMs }) => wallMs)),
        cpuMs: describeSpread(times.map(({ cpuMs }) => cpuMs)),
        ...rateOf(times, cell?.parallel ?? 1),
        ...reference !== undefined && reference !== who &&
          others !== undefined &&
          { ratio: { to: reference, median: compare(times, others) } },
      }));
    });
  }
}

/** A row of the results. */
export interface Row {
  /** The name of the cell. */
  readonly cell: string;
  readonly chain?: string;
  readonly masquerade?: boolean;
  /** Containers that were on the node already. */
  readonly containers?: number;
  /** Concurrent attachments; the figures are for all of them together. */
  readonly parallel?: number;
  /** What was done, such as `ADD`. */
  readonly step: string;
  /** The candidate. */
  readonly who: string;
  readonly rounds: number;
  readonly wallMs: Spread;
  /** User and system, children included. */
  readonly cpuMs: Spread;
  /** Attachments done in a second, of several at the same time. */
  readonly perSecond?: number;
  /** Wall time compared with another candidate; less than 1 is less than it takes. */
  readonly ratio?: { readonly to: string; readonly median: number };
}

/** Chooses the baseline: the Go plugins, else any other, else ours. */
function chooseReference(candidates: readonly string[]): string | undefined {
  const others = candidates.filter((who) => who.split(" ")[0] !== OURS);
  return candidates.includes(GO) ? GO : others[0] ?? candidates[0];
}

function describeCell(
  { chain, masquerade, containers, parallel }: Cell,
): Partial<Row> {
  return { chain, masquerade, containers, parallel };
}

function rateOf(times: readonly Times[], parallel: number): Partial<Row> {
  if (parallel === 1) return {};
  const { median } = describeSpread(times.map(({ wallMs }) => wallMs));
  return { perSecond: round(1000 * parallel / median) };
}

/**
 * Returns the median of each value divided by the one that was measured right beside
 * it. What slows a machine down for a while slows both, and is not in the ratio.
 */
function compare(times: readonly Times[], others: readonly Times[]): number {
  const ratios = times.map(({ wallMs }, at) =>
    wallMs / (others[at]?.wallMs ?? NaN)
  );
  return describeSpread(ratios).median;
}
