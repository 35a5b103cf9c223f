/**
 * Durations, on the command line and in configurations.
 *
 * @module
 */

import { AddressError } from "../../net/ip.ts";

/** Milliseconds of each unit. */
const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The limit of timers: 31 bits of milliseconds, almost 25 days. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Parses a duration: seconds, or numbers with units in Go's notation, `1m30s`.
 *
 * @returns Milliseconds, 0 to 2^31 - 1, which also stands for longer durations;
 *   undefined if the text is malformed
 */
export function parseDuration(text: string): number | undefined {
  const whole = /^\d+(\.\d+)?$/.test(text) ? `${text}s` : text;
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(whole)) return undefined;
  const ms = [...whole.matchAll(/([\d.]+)(ms|s|m|h)/g)].reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (UNITS[unit ?? ""] ?? 0),
    0,
  );
  return Math.min(Math.round(ms), LONGEST_MS);
}

/**
 * Parses how long an address stays that no pod uses.
 *
 * @returns Milliseconds
 * @throws {AddressError} If it is not a duration, or 0
 */
export function parseStayTime(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms > 0) return ms;
  throw new AddressError(`"${text}" is not a duration such as 10m`);
}

/** Formats a duration in the largest unit that gives a whole number. */
export function formatDuration(ms: number): string {
  const [unit = "ms", length = 1] = Object.entries(UNITS).reverse()
    .find(([, length]) => ms >= length && ms % length === 0) ?? [];
  return `${ms / length}${unit}`;
}
