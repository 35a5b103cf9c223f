/**
 * Durations, on the command line and in configurations.
 *
 * @module
 */

import { AddressError } from "../net/ip.ts";

/** Milliseconds of each unit. */
const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The limit of timers: 31 bits of milliseconds, almost 25 days. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The longest retention time of a persistent address: ten years. */
export const LONGEST_STAY_MS = 10 * 365 * 24 * 3_600_000;

/**
 * Parses a duration: seconds, or numbers with units in Go's notation, `1m30s`.
 *
 * @returns Milliseconds from 0, possibly more than timers can hold; undefined if the
 * text is malformed
 */
export function parseDuration(text: string): number | undefined {
  const whole = /^\d+(\.\d+)?$/.test(text) ? `${text}s` : text;
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(whole)) return undefined;
  const ms = [...whole.matchAll(/([\d.]+)(ms|s|m|h)/g)].reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (UNITS[unit ?? ""] ?? 0),
    0,
  );
  return Math.round(ms);
}

/**
 * Parses for how long to keep a persistent address that no pod uses.
 *
 * @returns Milliseconds
 * @throws {AddressError} If it is not a duration, 0, or more than ten years
 */
export function parseStayTime(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) {
    throw new AddressError(`"${text}" is not a duration such as 10m`);
  }
  if (ms <= LONGEST_STAY_MS) return ms;
  throw new AddressError(`"${text}" is longer than ten years`);
}

/** Formats a duration in the largest unit that results in a whole number. */
export function formatDuration(ms: number): string {
  const [unit = "ms", length = 1] = Object.entries(UNITS).reverse()
    .find(([, length]) => ms >= length && ms % length === 0) ?? [];
  return `${ms / length}${unit}`;
}
