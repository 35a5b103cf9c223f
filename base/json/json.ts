/**
 * Reads JSON as the Go plugins do, so that their configurations work here: keys
 * match case-insensitively, null means absent, unknown keys are kept, and
 * errors contain the location of the problem.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, ErrorCode } from "../error.ts";
import { describeSyntaxError } from "./json_syntax.ts";

/** Any JSON value. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | JsonValue[]
  | JsonObject;

/** A JSON object. */
export type JsonObject = { [key: string]: JsonValue };

/** Reports whether a JSON value is an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns an object unchanged; an empty object for any other value. */
export function objectOf(value: JsonValue | undefined): JsonObject {
  return isObject(value) ? value : {};
}

/**
 * A schema of zod or zod/mini, by its output type. Public interfaces use no other
 * type of zod.
 */
export interface Schema<T> {
  /** Internal to zod. */
  readonly _zod: { readonly output: T };
}

/** The output type of a schema. */
export type SchemaOutput<S> = S extends Schema<infer T> ? T : never;

/**
 * Defers building a schema to its first use.
 *
 * zod needs 1 to 2 ms for the first schemas of a process, and not every call
 * decodes a configuration.
 */
export function once<T>(build: () => T): () => T {
  let built: T | undefined;
  return () => built ??= build();
}

/** Any schema. */
type ZodSchema = z.core.$ZodType;

/**
 * Parses a whole JSON document. Errors contain the location, but none of the content,
 * which can come from any file.
 *
 * @param document Text, or its UTF-8 encoding
 * @param what The document's name in error messages
 * @throws {CniError} 6 If it is not JSON, not UTF-8, empty, or nested more than
 *   {@linkcode MAX_DEPTH} levels deep
 */
export function parseJson(
  document: Uint8Array | string,
  what = "JSON",
): unknown {
  try {
    const text = typeof document === "string" ? document : decodeUtf8(document);
    if (text.trim() === "") throw new SyntaxError("it is empty");
    const value = parseText(text);
    checkDepth(text, value);
    return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new CniError(
      ErrorCode.DecodingFailure,
      `Cannot parse ${what}: ${error.message}`,
    );
  }
}

/** @throws {SyntaxError} Does not quote the text, unlike V8's error */
function parseText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new SyntaxError(describeSyntaxError(text));
  }
}

/**
 * The nesting limit of objects and arrays. JSON.parse() has no limit, but code
 * that walks or prints a value is recursive and would overflow the stack.
 * Source: Go encoding/json `maxNestingDepth` is 10 000.
 */
const MAX_DEPTH = 1000;

function checkDepth(text: string, value: unknown): void {
  // Each level takes a bracket, so short documents need no scan.
  if (text.length <= 2 * MAX_DEPTH) return;
  if (text.split(/[[{]/, MAX_DEPTH + 2).length <= MAX_DEPTH + 1) return;
  let level = [value].filter(isNesting);
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) {
      throw new SyntaxError(`it is nested more than ${MAX_DEPTH} levels deep`);
    }
    level = level.flatMap((item) => Object.values(item).filter(isNesting));
  }
}

function isNesting(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Decodes UTF-8. Keeps a byte order mark, which is invalid in JSON. */
function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
      .decode(bytes);
  } catch {
    throw new SyntaxError("it is not UTF-8");
  }
}

/**
 * Checks a value against a schema, after {@linkcode foldKeys}.
 *
 * @param what The value's name in error messages
 * @param code The code of the error, if the value is not a configuration
 * @returns The schema's output
 * @throws {CniError} `code` With the first problem as the message, and all
 *   problems as the details if there are more
 */
export function decode<T>(
  schema: Schema<T>,
  value: unknown,
  what: string,
  code: number = ErrorCode.InvalidNetworkConfig,
): T {
  const parsed = parse(schema, value);
  if (parsed.success) return parsed.data;
  const [first, ...others] = parsed.error.issues.map(formatIssue);
  throw new CniError(
    code,
    `Cannot decode ${what}: ${first}`,
    others.length === 0 ? {} : { details: [first, ...others].join("; ") },
  );
}

/**
 * Checks a value against a schema like {@linkcode decode}, but omits keys with
 * invalid values, because a teardown must succeed.
 *
 * @param onDropped Receives each dropped key, as `path: problem`
 * @throws {CniError} 7 If the value is invalid even without those keys
 */
export function decodeLeniently<T>(
  schema: Schema<T>,
  value: unknown,
  what: string,
  onDropped: (problem: string) => void,
): T {
  const parsed = parse(schema, value);
  if (parsed.success) return parsed.data;
  let kept = value;
  for (const issue of parsed.error.issues) {
    onDropped(formatIssue(issue));
    kept = copyWithoutKey(kept, issue.path);
  }
  return decode(schema, kept, what);
}

/** A part of a value that a schema rejects. */
export interface SchemaIssue {
  /** The location: keys and indices. */
  readonly path: readonly PropertyKey[];
  /** The problem. */
  readonly message: string;
}

/** Lists all problems that {@linkcode decode} would find in a value. */
export function listIssues(
  schema: Schema<unknown>,
  value: unknown,
): SchemaIssue[] {
  return parse(schema, value).error?.issues ?? [];
}

function parse<T>(
  schema: Schema<T>,
  value: unknown,
): z.core.util.SafeParseResult<T> {
  const zodSchema = schema as z.core.$ZodType<T>;
  const folded = foldKeys(zodSchema, value);
  return z.safeParse(zodSchema, folded, { error: describeProblem });
}

/**
 * Copies an object without a key, or without the whole list that contains the
 * key's path. Does not copy anything off the path, which may be deeply nested.
 */
function copyWithoutKey(value: unknown, path: readonly PropertyKey[]): unknown {
  const [key, ...rest] = path;
  if (!isObject(value) || typeof key !== "string") return value;
  const entries = Object.entries(value).flatMap(([spelling, item]) => {
    if (foldKey(spelling) !== foldKey(key)) return [[spelling, item]];
    const isDeeper = typeof rest[0] === "string";
    return isDeeper ? [[spelling, copyWithoutKey(item, rest)]] : [];
  });
  return Object.fromEntries(entries);
}

/**
 * Renames the keys of a value to the schema's spelling, at every depth that the
 * schema describes, and drops each null whose key is optional.
 *
 * Of several keys that differ only in case, the last one wins, even if an earlier one
 * has the schema's exact spelling. `__proto__` is dropped, because assigning it would
 * not set a key.
 *
 * It walks the schema with `_zod.def`, which is zod 4's interface for this
 * (https://zod.dev/packages/core); zod 3 and later versions might have a different
 * interface.
 *
 * Source: Go encoding/json `Unmarshal`.
 */
export function foldKeys(schema: Schema<unknown>, value: unknown): unknown {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object":
      return isObject(value) ? foldObject(def.shape, value) : value;
    case "record":
      return isObject(value) ? foldRecord(def.valueType, value) : value;
    case "array":
      return Array.isArray(value)
        ? value.map((item) => foldKeys(def.element, item))
        : value;
    case "union":
      return def.options.reduce<unknown>(
        (folded, option) => foldKeys(option, folded),
        value,
      );
    case "pipe":
      return foldKeys(def.in, value);
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "readonly":
      return foldKeys(def.innerType, value);
    default:
      return value;
  }
}

function foldObject(
  shape: Readonly<Record<string, ZodSchema>>,
  value: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const folded: Record<string, unknown> = {};
  // Listing only the keys takes half as long as listing the entries.
  for (const key of Object.keys(value)) {
    if (key === "__proto__") continue;
    const item = value[key];
    const known = findSpelling(shape, key);
    const schema = known === undefined ? undefined : shape[known];
    const isOmittable = schema?._zod.optin !== undefined;
    if (item === null && isOmittable) continue;
    folded[known ?? key] = schema === undefined ? item : foldKeys(schema, item);
  }
  return folded;
}

/**
 * Folds a key as Go does: `ſ` (U+017F) is an s, and `K` (U+212A) a k.
 *
 * Source: Go encoding/json fold.go `foldName`, unicode.SimpleFold.
 */
export function foldKey(key: string): string {
  return key.toUpperCase().toLowerCase();
}

/**
 * Finds the value of a key in any spelling. Like a plugin, uses the last of several
 * keys, and ignores null.
 */
export function findValue<T>(
  object: Readonly<Record<string, T>>,
  key: string,
): T | undefined {
  const folded = foldKey(key);
  return Object.entries(object)
    .findLast(([spelling, value]) =>
      value !== null && foldKey(spelling) === folded
    )?.[1];
}

/** Lists the values of a key in all its spellings. */
export function listValues<T>(
  object: Readonly<Record<string, T>>,
  key: string,
): T[] {
  const folded = foldKey(key);
  return Object.entries(object)
    .flatMap(([spelling, value]) =>
      foldKey(spelling) === folded ? [value] : []
    );
}

function findSpelling(shape: object, key: string): string | undefined {
  if (Object.hasOwn(shape, key)) return key;
  const folded = foldKey(key);
  // Comparing the lengths first is quick. Case does not change the length, except for
  // letters that no schema uses.
  return Object.keys(shape).find((known) =>
    known.length === key.length && foldKey(known) === folded
  );
}

function foldRecord(
  valueSchema: ZodSchema,
  value: object,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      foldKeys(valueSchema, item),
    ]),
  );
}

/** The message for problems without a specific message. */
const UNACCEPTABLE = "not a valid value";

/** Describes a problem. zod/mini has no messages without a locale. */
function describeProblem(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return describeTypeProblem(issue.expected, issue.input);
    case "invalid_value":
      return expectedGot(issue.values.map(quote).join(" or "), issue.input);
    case "invalid_format":
      return expectedGot(issue.pattern ?? issue.format, issue.input);
    case "too_small":
      return describeSizeProblem(
        `${issue.inclusive ? "at least" : "more than"} ${issue.minimum}`,
        issue.input,
      );
    case "too_big":
      return describeSizeProblem(
        `${issue.inclusive ? "at most" : "less than"} ${issue.maximum}`,
        issue.input,
      );
    case "unrecognized_keys":
      return `unknown key ${issue.keys.map(quote).join(", ")}`;
    case "invalid_union":
      return issue.errors.map(([first]) => first?.message).join(", or ") ||
        UNACCEPTABLE;
    default:
      return UNACCEPTABLE;
  }
}

function describeTypeProblem(expected: string, input: unknown): string {
  if (input === undefined) return "missing";
  if (expected === "int") return expectedGot("an integer", input);
  // zod calls an object with arbitrary keys a record.
  const type = expected === "record" ? "object" : expected;
  return `expected ${withArticle(type)}, got ${nameType(input)}`;
}

function describeSizeProblem(bounds: string, input: unknown): string {
  return typeof input === "string" || Array.isArray(input)
    ? `expected a length of ${bounds}, got ${input.length}`
    : expectedGot(bounds, input);
}

function expectedGot(expected: string, input: unknown): string {
  return `expected ${expected}, got ${quote(input)}`;
}

function nameType(value: unknown): string {
  if (value === null) return "null";
  if (isBeyondRange(value)) return "a number out of range";
  return withArticle(Array.isArray(value) ? "array" : typeof value);
}

function withArticle(noun: string): string {
  return `${/^[aeiou]/.test(noun) ? "an" : "a"} ${noun}`;
}

/** Formats a scalar as JSON does, and anything else as its type. */
function quote(value: unknown): string {
  const isScalar = typeof value === "string" || typeof value === "number";
  return isScalar && !isBeyondRange(value)
    ? JSON.stringify(value)
    : nameType(value);
}

/** Reports whether a value is the result of JSON.parse() for a number like 1e999. */
function isBeyondRange(value: unknown): boolean {
  return typeof value === "number" && !Number.isFinite(value);
}

function formatIssue({ path, message }: z.core.$ZodIssue): string {
  return path.length === 0 ? message : `${formatPath(path)}: ${message}`;
}

/** Formats `["ipam", "ranges", 0, "subnet"]` as `ipam.ranges[0].subnet`. */
export function formatPath(path: readonly PropertyKey[]): string {
  return path
    .map((key) => typeof key === "number" ? `[${key}]` : `.${String(key)}`)
    .join("").replace(/^\./, "");
}

/**
 * Copies an object without its undefined values, so that absent optional keys
 * do not exist as keys.
 */
export function omitAbsent<T extends object>(
  fields: { readonly [K in keyof T]: T[K] | undefined },
): T {
  const present = Object.entries(fields)
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as T;
}

/** Copies a value with the keys of all objects in it sorted. */
export function sortKeys<T extends JsonValue>(value: T): T;
export function sortKeys(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map((item) => sortKeys(item));
  if (typeof value !== "object" || value === null) return value;
  const sorted = Object.entries(value).sort(([left], [right]) =>
    left < right ? -1 : 1
  );
  return Object.fromEntries(
    sorted.map(([key, item]) => [key, sortKeys(item)]),
  );
}
