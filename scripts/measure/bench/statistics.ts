/**
 * Statistics of a series of measurements.
 *
 * @module
 */

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
