/**
 * Replacements for invalid values.
 *
 * @module
 */

import { readIp } from "../../metadata/problem.ts";
import { findValue, type JsonValue } from "../../base/json/json.ts";

/** A sort of mistake: where it is made, and what to write instead. */
interface Advice {
  /** Matches the key; items of lists have the list's key. */
  readonly key: RegExp;
  /** Matches the problem. */
  readonly problem: RegExp;
  /** Returns the advice; undefined for values without advice. */
  readonly write: (value: JsonValue | undefined) => string | undefined;
}

const ADVICE: readonly Advice[] = [
  {
    key: /^(ranges|ipRanges)$/i,
    problem: /expected an array/,
    write: () => "[[{…}]]",
  },
  {
    key: /^ranges$/i,
    problem: /expected an object, got a string/,
    write: (value) => `{"subnet": ${JSON.stringify(value)}}`,
  },
  {
    key: /^ipam$/i,
    problem: /expected an object, got a string/,
    write: (value) => `{"type": ${JSON.stringify(value)}, …}`,
  },
  {
    key: /^dns$/i,
    problem: /expected an object, got a string/,
    write: (value) => `{"nameservers": [${JSON.stringify(value)}]}`,
  },
  {
    key: /^(ipam|dns)$/i,
    problem: /expected an object, got an array/,
    write: () => "{…} without brackets",
  },
  {
    key: /^subnet$/i,
    problem: /\busePodCidr/,
    write: () =>
      "the range itself, because only Calico's plugin replaces this word",
  },
  {
    key: /^dst$/i,
    problem: /invalid CIDR/,
    write: (value) => {
      if (value === "0.0.0.0" || value === "::") return `${value}/0`;
      return value === "default" || value === "0/0"
        ? "0.0.0.0/0 or ::/0"
        : undefined;
    },
  },
  {
    key: /^(subnet|dst|address|addresses)$/i,
    problem: /invalid CIDR/,
    write: (value) =>
      typeof value === "string" && /^[\d.]+$|^[\da-f:]+:[\da-f:]*$/i.test(value)
        ? `a prefix length too, such as ${value}/${
          value.includes(":") ? 64 : 24
        }`
        : undefined,
  },
  {
    key: /^(gateway|gw|rangeStart|rangeEnd|range_start|range_end)$/i,
    problem: /invalid IP address/,
    write: (value) => {
      const [address = "", length] = String(value).split("/");
      return length === undefined || readIp(address) === undefined
        ? undefined
        : address;
    },
  },
  {
    key: /^mode$/i,
    problem: /^unknown \w+ mode/,
    write: (value) => {
      const mode = String(value).toLowerCase();
      return mode === value ? undefined : JSON.stringify(mode);
    },
  },
  {
    key: /^(in|e)gress(rate|burst)$/i,
    problem: /expected/,
    write: (value) => {
      const bits = readBits(value);
      return bits === undefined ? undefined : `bits, as a number: ${bits}`;
    },
  },
  {
    key: /./,
    problem: /expected (a number|an integer), got a string/,
    write: (value) =>
      /^-?\d+$/.test(String(value)) ? `${value} without quotes` : undefined,
  },
  {
    key: /./,
    problem: /expected a boolean, got a string/,
    write: (value) => {
      const word = String(value).toLowerCase();
      if (/^(true|yes|on|1)$/.test(word)) return "true without quotes";
      return /^(false|no|off|0)$/.test(word)
        ? "false without quotes"
        : undefined;
    },
  },
  {
    key: /./,
    problem: /expected a boolean, got a number/,
    write: (value) => value === 1 ? "true" : value === 0 ? "false" : undefined,
  },
  {
    key: /./,
    problem: /expected a string, got a (number|boolean)/,
    write: (value) => `"${value}" in quotes`,
  },
  {
    key: /./,
    problem: /expected an array, got an object/,
    write: () => "[{…}]",
  },
  {
    key: /./,
    problem: /expected an array, got a string/,
    write: (value) => JSON.stringify([value]),
  },
  {
    key: /^routes$/i,
    problem: /expected an object, got a string/,
    write: (value) => `{"dst": ${JSON.stringify(value)}}`,
  },
  {
    key: /^addresses$/i,
    problem: /expected an object, got a string/,
    write: (value) => `{"address": ${JSON.stringify(value)}}`,
  },
];

/**
 * Adds advice to the message about a value.
 *
 * @param path Leads to the value in the document, in any case
 */
export function advise(
  message: string,
  path: readonly PropertyKey[],
  document: JsonValue,
): string {
  const key = String(path.findLast((part) => typeof part === "string") ?? "");
  const value = valueAt(document, path);
  for (const { key: where, problem, write } of ADVICE) {
    if (!where.test(key) || !problem.test(message)) continue;
    const advice = write(value);
    if (advice !== undefined) return `${message}; write ${advice}`;
  }
  return message;
}

/** Returns a value in a document; keys are case-insensitive. */
function valueAt(
  document: JsonValue | undefined,
  path: readonly PropertyKey[],
): JsonValue | undefined {
  let value = document;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    if (Array.isArray(value)) value = value[Number(key)];
    else value = findValue(value, String(key));
  }
  return value;
}

const POWERS: Readonly<Record<string, number>> = {
  "": 1,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
};

/** Reads a rate such as `10M` or `1.5 Gbit/s`; undefined if the text is not a rate. */
function readBits(value: JsonValue | undefined): number | undefined {
  const match = /^([\d.]+) *([kmgt]?)(i?)(b|bit|bps)?(\/s)?$/i
    .exec(String(value));
  if (match === null) return undefined;
  const [, digits, prefix = "", binary] = match;
  const power = POWERS[prefix.toLowerCase()] ?? 1;
  const factor = binary ? 1024 ** Math.round(Math.log10(power) / 3) : power;
  const bits = Number(digits) * factor;
  return Number.isFinite(bits) ? Math.round(bits) : undefined;
}
