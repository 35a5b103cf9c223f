/**
 * Problems of a configuration, and its values as the rules that find them read them.
 *
 * @module
 */

import {
  formatPath,
  type JsonObject,
  type JsonValue,
  objectOf,
} from "../base/json/json.ts";
import { Cidr } from "../net/cidr.ts";
import { Ip, unlessNoAddress } from "../net/ip.ts";

/** Error: the network cannot work. Warning: it works, but probably not as intended. */
export type Severity = "error" | "warning";

/** The codes of warnings, with which users silence them. */
export const WARNING_CODES = [
  "file",
  "gateway-clash",
  "gateway-off-subnet",
  "host-bits",
  "key-spelling",
  "name-server",
  "no-effect",
  "node-file",
  "range-overlap",
  "route-family",
  "second-route",
  "unknown-key",
  "unknown-plugin",
  "value",
  "version",
] as const;

/** One of {@linkcode WARNING_CODES}. */
export type WarningCode = typeof WARNING_CODES[number];

/** A place: keys and indices. */
export type ConfigPath = readonly PropertyKey[];

/** A problem. */
export interface Problem {
  /** Whether the network cannot work. */
  readonly severity: Severity;
  /** Empty for the whole configuration. */
  readonly place: ConfigPath;
  /** Whether the key is the problem, not its value. */
  readonly isKey: boolean;
  /** Whether nothing reads the key, which is probably misspelt. */
  readonly isUnknownKey?: boolean;
  /** What a warning is about; `value` by default. */
  readonly code?: WarningCode;
  /** A sentence without a full stop. */
  readonly message: string;
  /**
   * Its position in the text, in UTF-16 code units; absent if the place
   * contains it.
   */
  readonly offset?: number;
}

/** Creates an error. */
export function errorAt(place: ConfigPath, message: string): Problem {
  return { severity: "error", place, isKey: false, message };
}

/** Creates a warning. */
export function warningAt(
  place: ConfigPath,
  message: string,
  code: WarningCode = "value",
): Problem {
  return { severity: "warning", place, isKey: false, message, code };
}

/** Creates a warning about a key. */
export function keyWarningAt(
  place: ConfigPath,
  message: string,
  code?: WarningCode,
): Problem {
  return { ...warningAt(place, message, code), isKey: true };
}

/** Creates a warning about a key that nothing reads. */
export function unknownKeyAt(place: ConfigPath, message: string): Problem {
  return { ...keyWarningAt(place, message, "unknown-key"), isUnknownKey: true };
}

/** Formats a place: `plugins[0].ipam.subnet`; "" for the whole configuration. */
export function formatPlace(place: ConfigPath): string {
  return formatPath(place);
}

/** Prefixes the places of problems. */
export function under(
  base: ConfigPath,
  problems: readonly Problem[],
): Problem[] {
  return problems.map((problem) => ({
    ...problem,
    place: [...base, ...problem.place],
  }));
}

/** Lists the items of an array as objects; empty for anything else. */
export function listOf(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.map(objectOf) : [];
}

/** Reads an address with a prefix length; undefined if it cannot be read. */
export function readCidr(value: unknown): Cidr | undefined {
  if (typeof value !== "string") return undefined;
  return unlessNoAddress(() => Cidr.parse(value));
}

/** Reads an address; undefined if it cannot be read. */
export function readIp(value: unknown): Ip | undefined {
  if (typeof value !== "string") return undefined;
  return unlessNoAddress(() => Ip.parse(value));
}
