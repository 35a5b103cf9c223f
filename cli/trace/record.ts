/**
 * The records of a trace: one line of JSON each. Several processes append to one
 * file.
 *
 * @module
 */

import { isObject, type JsonObject } from "../../base/json/json.ts";

/** Kinds of records. */
export type StepKind =
  | "call"
  | "plugin"
  | "netlink"
  | "nftables"
  | "file"
  | "process"
  | "wait"
  | "system";

/** Something that took time. */
export interface TraceRecord {
  readonly kind: StepKind;
  /** The request, operation or program. */
  readonly name: string;
  /** The object of the operation; "" for none. */
  readonly object: string;
  /** When it began, in microseconds since 1970. */
  readonly startUs: number;
  readonly durationUs: number;
  readonly pid: number;
  /** The failure; absent on success. */
  readonly error?: string;
  /** More about it. */
  readonly detail?: JsonObject;
}

/** Formats a record as a line. */
export function formatRecord(record: TraceRecord): string {
  return `${JSON.stringify(record)}\n`;
}

/** Parses a trace, ordered by time. Ignores lines that are not complete. */
export function parseTrace(text: string): TraceRecord[] {
  return text.split("\n").flatMap((line) => {
    try {
      const value: unknown = JSON.parse(line);
      return isRecord(value) ? [value] : [];
    } catch {
      return []; // A process was killed while it wrote.
    }
  }).sort((left, right) =>
    left.startUs - right.startUs || right.durationUs - left.durationUs
  );
}

function isRecord(value: unknown): value is TraceRecord {
  if (!isObject(value)) return false;
  const { kind, name, object, startUs, durationUs, pid } = value;
  return [kind, name, object].every((text) => typeof text === "string") &&
    [startUs, durationUs, pid].every(Number.isFinite);
}

const SECRET = /secret|passw|token|credential|private|psk|api_?key|^key$|auth/i;

/** Secrets in texts: JSON inside a string, arguments, and URLs with a user. */
const SECRET_TEXTS = [
  /((?:secret|passw|token|credential|api_?key)\w*\\*["']?\s*[:=]\s*\\*["']?)[^\s"'\\,;}]+/gi,
  /(\w:\/\/)[^\s/@"']+(?=@)/g,
];

/** Replaces the values of keys that look like secrets. */
export function maskSecretValues(value: unknown): unknown {
  if (typeof value === "string") {
    return SECRET_TEXTS.reduce(
      (text, pattern) => text.replaceAll(pattern, "$1***"),
      value,
    );
  }
  if (Array.isArray(value)) return value.map(maskSecretValues);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      SECRET.test(key) && inner !== null && typeof inner !== "boolean"
        ? "***"
        : maskSecretValues(inner),
    ]),
  );
}

/** Converts any value to JSON: addresses to text, bytes to hexadecimal. */
export function toJson(value: unknown): unknown {
  const text = JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner === "bigint") return String(inner);
    if (!(inner instanceof Uint8Array)) return inner;
    return inner.toHex().slice(0, 128);
  });
  return text === undefined ? null : JSON.parse(text);
}
