/**
 * Masks secrets in configurations, caches and logs.
 *
 * @module
 */

import { SECRET_KEYS } from "../../plugins/lists/key_tables.ts";

/** Stands for a secret. */
const MASK = "***";

/** Keys of secrets in JSON, YAML, arguments and environments. */
const KEY =
  "[\\w.-]{0,64}(?:token|passw(?:or)?d|passphrase|pwd|secret|credential|" +
  "authorization|pre_?shared|api[_-]?key|access[_-]?key|private[_-]?key|" +
  "(?:client-key|certificate-authority|client-certificate)-data)" +
  "[\\w.-]{0,64}|[\\w.-]{0,64}(?:pass|psk)|(?:set-)?cookie";
/** Values; with escaped quotes, they are in JSON that is a string itself. */
const VALUE = String.raw`(?<escapes>\\+)["'][^]*?(?<!\\)\k<escapes>["']|` +
  String.raw`"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|\[[^\]{]*\]|\{[^{}]*\}|` +
  String.raw`[^\s,;}\]]+`;

/** Matches values of the given keys. */
interface Patterns {
  readonly keyed: RegExp;
  /** A variable as Kubernetes writes it: `name: TOKEN`, `value: abc`. */
  readonly variable: RegExp;
  /** An argument of a program, and the next. */
  readonly argument: RegExp;
  /** A key at the start of a line, and the rest of the line. */
  readonly line: RegExp;
  readonly wholeKey: RegExp;
}

/** @param declared Keys that plugins declare as secret */
function patternsOf(declared: readonly string[]): Patterns {
  const key = [KEY, ...declared.map((one) => RegExp.escape(one))].join("|");
  return {
    keyed: new RegExp(
      `(\\\\*["']?)(${key})\\1([ \\t]*[:=][ \\t]*)(${VALUE})`,
      "gi",
    ),
    variable: new RegExp(
      `(\\bname["']?\\s*:\\s*["']?)(${key})` +
        `(["']?\\s*,?\\s*["']?value["']?\\s*:\\s*)(${VALUE})`,
      "gi",
    ),
    argument: new RegExp(
      `(--?(?:${key})["']?(?:\\s*,\\s*|\\s+)["']?)([^\\s"',=-][^\\s"',]*)`,
      "gi",
    ),
    line: new RegExp(
      `^(\\s*(?:- +)*)(["']?)(${key})\\2:(?:[ \\t]+(.*))?$`,
      "i",
    ),
    wholeKey: new RegExp(`^(?:${key})$`, "i"),
  };
}

let patterns = patternsOf(SECRET_KEYS);

/** Masks further keys from now on: keys of third-party plugins. */
export function maskKeys(keys: readonly string[]): void {
  patterns = patternsOf([...SECRET_KEYS, ...keys]);
}

/** Texts that are secrets wherever they are. */
const ANYWHERE: readonly [RegExp, string][] = [
  [
    /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
    MASK,
  ],
  [/\beyJ[\w-]+\.[\w-]+\.[\w-]*/g, MASK],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]+/gi, `$1 ${MASK}`],
  [/(\w:\/\/)[^\s/@"']+@/g, `$1${MASK}@`],
];

/** Replaces the values of secrets by `***`. */
export function maskSecrets(text: string): string {
  const unkeyed = ANYWHERE.reduce(
    (masked, [pattern, by]) => masked.replaceAll(pattern, by),
    text,
  );
  return maskLines(unkeyed)
    .replaceAll(
      patterns.variable,
      (_, name: string, key: string, between: string, value: string) =>
        `${name}${key}${between}${maskValue(key, value)}`,
    )
    .replaceAll(patterns.argument, `$1${MASK}`)
    .replaceAll(
      patterns.keyed,
      (_, quote: string, key: string, colon: string, value: string) =>
        `${quote}${key}${quote}${colon}${maskValue(key, value)}`,
    );
}

/** Masks values of YAML that go on to the end of the line, or in the next lines. */
function maskLines(text: string): string {
  const shown: string[] = [];
  let depth: number | undefined;
  for (const line of text.split("\n")) {
    const indent = line.search(/\S/);
    const isInside = depth !== undefined &&
      (indent < 0 || indent > depth || /^\s*- /.test(line) && indent === depth);
    if (isInside) {
      if (shown.at(-1)?.endsWith(":")) shown.push(`${shown.pop()} "${MASK}"`);
      continue;
    }
    depth = undefined;
    const [, start, quote, key, rest = ""] = patterns.line.exec(line) ?? [];
    const isJson = quote !== "" || /^["'[{]/.test(rest);
    if (start === undefined || key === undefined || isJson) {
      shown.push(line);
      continue;
    }
    depth = start.length;
    const value = rest === "" ? "" : maskValue(key, rest);
    shown.push(`${start}${key}:${value && ` ${value}`}`);
  }
  return shown.join("\n");
}

/** Directories of files: a value in one of them is a path, not a secret. */
const FILE =
  /^\\*["']?\/(?:dev|etc|home|host|mnt|opt|proc|root|run|srv|tmp|usr|var)\//;

/** Values that contain no secret, or a secret that is masked already. */
const BLANK =
  /^(?:\\*["']\\*["']|null|true|false|\[\s*\]?|\{\s*\}?|(?:Bearer|Basic)(?: \*+)?)$/;

function maskValue(key: string, value: string): string {
  const isPath = FILE.test(value) ||
    /(?:file|path|dir)$/i.test(key) && /^\\*["']?[./]/.test(value);
  if (isPath || BLANK.test(value)) return value;
  const quote = /^\\+["']/.exec(value)?.[0] ?? '"';
  return `${quote}${MASK}${quote}`;
}

/** Formats a value as JSON, with secrets masked. */
export function formatMasked(value: unknown): string {
  return `${JSON.stringify(maskInside(value, ""), null, 2)}\n`;
}

/** Returns the flag of a program that the next argument is the value of. */
function findFlag(argument: unknown): string | undefined {
  return typeof argument === "string" && /^--?[^=]+$/.test(argument)
    ? argument
    : undefined;
}

/** @param key The key of the value, or of the object or array that contains it */
function maskInside(value: unknown, key: string): unknown {
  const isSecret = patterns.wholeKey.test(key);
  if (typeof value === "number") return isSecret ? MASK : value;
  if (typeof value === "string") {
    const whole = isSecret ? maskValue(key, JSON.stringify(value)) : "";
    return whole === `"${MASK}"` ? MASK : maskSecrets(value);
  }
  if (typeof value !== "object" || value === null) return value;
  // CNI_ARGS and variables are names with values.
  if (Array.isArray(value)) {
    const [name] = value;
    return value.length === 2 && typeof name === "string" && !isSecret
      ? [maskSecrets(name), maskInside(value[1], name)]
      : value.map((item, index) =>
        maskInside(item, findFlag(value[index - 1]) ?? key)
      );
  }
  const { name } = value as { readonly name?: unknown };
  return Object.fromEntries(
    Object.entries(value).map(([inner, item]) => {
      const of = inner === "value" && typeof name === "string" ? name : inner;
      return [inner, maskInside(item, isSecret ? key : of)];
    }),
  );
}
