/**
 * How long test files take: those that take longest begin first, and a run can
 * say how long it will take.
 *
 * A whole run writes what it has measured to `build/durations.json`, which the
 * next run reads. Before the first one there is `durations.json` beside this
 * file: those of a run on two busy processors, scaled to the time of idle ones.
 *
 * @module
 */

import recorded from "./durations.json" with { type: "json" };

/** Durations of a run, in seconds. */
export interface Durations {
  /** That of the whole run. */
  readonly whole: number;
  /** Those of the files that take long, by name. */
  readonly files: Readonly<Record<string, number>>;
}

/** The shortest duration that is recorded, in seconds. */
const LONG = 5;

/** The duration of any other file, in seconds. */
const SHORT = 1;

/** Returns the recorded durations of the last run, or those of the tree. */
export function readDurations(path: URL): Durations {
  try {
    const { whole, files } = JSON.parse(Deno.readTextFileSync(path));
    if (typeof whole === "number" && typeof files === "object") {
      return { whole, files };
    }
  } catch {
    // The file is missing, or incomplete.
  }
  return recorded;
}

/** Writes the durations of a run. */
export function writeDurations(path: URL, { whole, files }: Durations): void {
  const long = Object.entries(files)
    .filter(([, seconds]) => seconds >= LONG)
    .toSorted(([, a], [, b]) => b - a)
    .map(([name, seconds]) => [name, Math.round(seconds)]);
  const text = JSON.stringify(
    { whole: Math.round(whole), files: Object.fromEntries(long) },
    undefined,
    2,
  );
  Deno.writeTextFileSync(path, `${text}\n`);
}

/** Returns how long a file takes, in seconds. */
export function durationOf({ files }: Durations, name: string): number {
  return files[name] ?? SHORT;
}

/** Reports whether a file is recorded as one that takes long. */
export function isLong({ files }: Durations, name: string): boolean {
  return name in files;
}

/** Files that have begun, and when; in ms. */
type Started = ReadonlyMap<string, number>;

/** Estimates how long a run still takes. */
export class Forecast {
  readonly #durations: Durations;
  readonly #startMs: number;
  readonly #all: number;
  #ended = 0;

  /** @param names All that is to be run */
  constructor(
    durations: Durations,
    names: readonly string[],
    startMs: number = performance.now(),
  ) {
    this.#durations = durations;
    this.#startMs = startMs;
    this.#all = names.reduce((sum, name) => sum + this.#durationOf(name), 0);
  }

  #durationOf(name: string): number {
    return durationOf(this.#durations, name);
  }

  /** Notes that something has ended. */
  end(name: string): void {
    this.#ended += this.#durationOf(name);
  }

  /**
   * Returns how many seconds are left. At the beginning it takes the recorded
   * time of a whole run, later the pace of this one.
   */
  secondsLeft(
    running: Started,
    nowMs: number = performance.now(),
  ): number {
    const partly = [...running].map(([name, startMs]) =>
      Math.min(this.#durationOf(name), (nowMs - startMs) / 1000)
    );
    const done = partly.reduce((sum, part) => sum + part, this.#ended);
    const share = this.#all === 0 ? 1 : done / this.#all;
    const passed = (nowMs - this.#startMs) / 1000;
    const whole = share < SOME ? this.#durations.whole : passed / share;
    return Math.max(0, Math.min(1 - share, 1) * whole);
  }
}

/** The share of a run that tells its pace. */
const SOME = 0.2;

/** Renders a time as people say it. */
export function formatSeconds(seconds: number): string {
  return seconds < 90
    ? `${Math.max(10, Math.ceil(seconds / 10) * 10)} s`
    : `${Math.round(seconds / 60)} min`;
}
