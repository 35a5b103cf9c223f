/**
 * What is measured of a process, or of several that together do one thing.
 *
 * @module
 */

/** The measures, in the order in which they are shown. */
export const MEASURES = [
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
export type Measure = typeof MEASURES[number];

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
