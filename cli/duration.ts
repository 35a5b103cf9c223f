/**
 * Durations on the command line.
 *
 * @module
 */

/** Milliseconds of each unit. */
const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The limit of timers: 31 bits of milliseconds. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Parses a duration: seconds, or numbers with units in Go's notation, `1m30s`.
 *
 * @returns Milliseconds, 0 to 2^31 - 1
 * @throws {RangeError} If the text is malformed or the duration too long
 */
export function parseDuration(text: string): number {
  const isNumber = /^\d+(\.\d+)?$/.test(text);
  const parts = [
    ...(isNumber ? `${text}s` : text).matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g),
  ];
  const isAll = parts.map(([part]) => part).join("") === text || isNumber;
  const ms = parts.reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (UNITS[unit ?? ""] ?? 0),
    0,
  );
  if (text === "" || !isAll || ms > LONGEST_MS) {
    throw new RangeError(
      `Cannot parse duration "${text}": use seconds, or 500ms, 10s, 2m, 1h30m`,
    );
  }
  return Math.round(ms);
}

/** Formats a duration in the largest unit that gives a whole number. */
export function formatDuration(ms: number): string {
  const [unit = "ms"] = Object.keys(UNITS).reverse()
    .filter((name) =>
      ms >= (UNITS[name] ?? 1) && ms % (UNITS[name] ?? 1) === 0
    );
  return `${ms / (UNITS[unit] ?? 1)}${unit}`;
}
