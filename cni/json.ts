/**
 * Reads JSON as the Go plugins do, so that a configuration which works with
 * them works here: keys match in any case, null means absent, unknown keys are
 * kept, and the problem that is reported names its place.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, ErrorCode } from "./error.ts";

/** Any value that JSON can express. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | JsonValue[]
  | JsonObject;

/** A JSON object. */
export type JsonObject = { [key: string]: JsonValue };

/** Says whether a value is an object, of those that JSON can express. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns an object as it is; an empty one for any other value, or none. */
export function objectOf(value: JsonValue | undefined): JsonObject {
  return isObject(value) ? value : {};
}

/**
 * A schema of zod or zod/mini, by what it makes of a value. Nothing else of
 * zod is in our interfaces.
 */
export interface Schema<T> {
  /** zod's own. */
  readonly _zod: { readonly output: T };
}

/** What a schema makes of a value. */
export type SchemaOutput<S> = S extends Schema<infer T> ? T : never;

/** Any schema, as zod sees it. */
type ZodSchema = z.core.$ZodType;

/**
 * Parses a whole JSON document.
 *
 * @param document Text, or its UTF-8
 * @param what The document, as the error message shall call it
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
    // V8 tells the place itself: the position, or the text around it.
    const value = JSON.parse(text);
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

/**
 * How many objects and arrays may contain each other. JSON.parse() has no limit,
 * but whatever walks or prints a value is recursive and runs out of stack.
 * Source: Go encoding/json `maxNestingDepth` is 10 000.
 */
const MAX_DEPTH = 1000;

function checkDepth(text: string, value: unknown): void {
  // Each level has a bracket: an ordinary document is told by its length alone.
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

/** Decodes text; a byte order mark is left in, for JSON has none. */
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
 * @param what The value, as the error message shall call it
 * @param code The code of the error, if it is not the configuration that is wrong
 * @returns What the schema makes of the value
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
 * Checks a value against a schema as {@linkcode decode} does, but does without
 * the keys whose values are wrong, as a tear-down must.
 *
 * @param onDropped Told of each key that was left out, as `path: problem`
 * @throws {CniError} 7 If the value cannot be decoded without those keys either
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

/** A part of a value that a schema does not accept. */
export interface SchemaIssue {
  /** Where it is: keys and indices. */
  readonly path: readonly PropertyKey[];
  /** What is wrong with it. */
  readonly message: string;
}

/** Lists everything that {@linkcode decode} would refuse in a value. */
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
 * Copies an object without a key, or without the whole list in which its path
 * leads. What is beside the path is not copied: it may be nested without end.
 */
function copyWithoutKey(value: unknown, path: readonly PropertyKey[]): unknown {
  const [key, ...rest] = path;
  if (!isObject(value) || typeof key !== "string") return value;
  const entries = Object.entries(value).flatMap(([spelling, item]) => {
    if (spelling.toLowerCase() !== key.toLowerCase()) return [[spelling, item]];
    const isDeeper = typeof rest[0] === "string";
    return isDeeper ? [[spelling, copyWithoutKey(item, rest)]] : [];
  });
  return Object.fromEntries(entries);
}

/**
 * Respells the keys of a value as a schema spells them, at every depth that the
 * schema describes, and drops each null whose key may be absent.
 *
 * A key that the schema has to the letter is taken as such; else one that
 * differs in case only. The last of several spellings wins. `__proto__` is
 * dropped, for assigning to it would not set a key.
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
  // To list the keys alone takes half as long as to list the entries.
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

function findSpelling(shape: object, key: string): string | undefined {
  if (Object.hasOwn(shape, key)) return key;
  const folded = key.toLowerCase();
  // The lengths are compared first, as it is quick; case does not change them,
  // but for letters that no schema has.
  return Object.keys(shape).find((known) =>
    known.length === key.length && known.toLowerCase() === folded
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

/** What is said of a value for which no better words are known. */
const UNACCEPTABLE = "not a valid value";

/** Words a problem; zod/mini itself has no words unless a locale is loaded. */
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
  // A record is zod's name for an object whose keys are data.
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

/** Shows a scalar as JSON does; of anything else only the type is of interest. */
function quote(value: unknown): string {
  const isScalar = typeof value === "string" || typeof value === "number";
  return isScalar && !isBeyondRange(value)
    ? JSON.stringify(value)
    : nameType(value);
}

/** Says whether a value is what JSON.parse() makes of a number like 1e999. */
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
 * Copies an object without its undefined values, so that an optional key that
 * is absent is absent, and not there with the value `undefined`.
 */
export function omitAbsent<T extends object>(
  fields: { readonly [K in keyof T]: T[K] | undefined },
): T {
  const present = Object.entries(fields)
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as T;
}

/** Copies a value with the keys of every object in it in alphabetical order. */
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
