/**
 * Stands in for the part of `jsr:@std/cli/parse-args` that the code uses,
 * where jsr.io is out of reach. Names with dots stay as they are.
 *
 * Source: https://jsr.io/@std/cli.
 *
 * @module
 */

/** The values of the declared flags. */
type Declared<B extends string, S extends string, C extends string> =
  & { [Name in Exclude<B, C>]: boolean }
  & { [Name in Exclude<S, C>]?: string }
  & { [Name in Extract<S, C>]: string[] };

/** The flags by name, and the rest under `_`. */
export type Args<V = Record<string, unknown>> =
  & Record<string, unknown>
  & V
  & { _: (string | number)[] };

/** Declares the flags and their values. */
export interface ParseOptions<
  B extends string = string,
  S extends string = string,
  C extends string = string,
> {
  /** Flags without a value. */
  boolean?: B | readonly B[];
  /** Flags with text as value, even if it looks like a number. */
  string?: S | readonly S[];
  /** Flags of `string` that may come several times; all their values are kept. */
  collect?: C | readonly C[];
  /** Stops parsing flags at the first positional argument. */
  stopEarly?: boolean;
  /** Is asked about each argument that is not declared; `false` drops it. */
  unknown?: (arg: string, key?: string, value?: unknown) => unknown;
}

/** Sorts command-line arguments into flags and others. Never fails. */
export function parseArgs<
  const B extends string = never,
  const S extends string = never,
  const C extends string = never,
>(
  args: readonly string[],
  options: ParseOptions<B, S, C> = {},
): Args<Declared<B, S, C>> {
  const reader = new ArgumentReader(options);
  const end = args.indexOf("--");
  reader.readAll(end < 0 ? args : args.slice(0, end));
  reader.fillDefaults();
  if (end >= 0) reader.parsed._.push(...args.slice(end + 1));
  return reader.parsed as Args<Declared<B, S, C>>;
}

/** Walks along the arguments and fills in the result. */
class ArgumentReader {
  readonly parsed: Args = { _: [] };
  readonly #options: ParseOptions;
  readonly #booleans: ReadonlySet<string>;
  readonly #strings: ReadonlySet<string>;
  readonly #collected: ReadonlySet<string>;

  constructor(options: ParseOptions) {
    const { boolean = [], string = [], collect = [] } = options;
    this.#options = options;
    this.#booleans = new Set([boolean].flat());
    this.#strings = new Set([string].flat());
    this.#collected = new Set([collect].flat());
  }

  readAll(args: readonly string[]): void {
    for (let at = 0; at < args.length;) {
      const [arg = "", next] = args.slice(at, at + 2);
      if (!/^-./s.test(arg)) {
        this.#addPlain(arg);
        at++;
        if (this.#options.stopEarly !== true) continue;
        this.parsed._.push(...args.slice(at));
        return;
      }
      const usesNext = arg.startsWith("--")
        ? this.#readLong(arg, next)
        : this.#readShort(arg, next);
      at += usesNext ? 2 : 1;
    }
  }

  fillDefaults(): void {
    for (const name of this.#booleans) this.parsed[name] ??= false;
    for (const name of this.#strings.intersection(this.#collected)) {
      this.parsed[name] ??= [];
    }
  }

  /** Reads `--name`, `--name=value` or `--name value`; says whether `next` was used. */
  #readLong(arg: string, next: string | undefined): boolean {
    const [, name = "", value] = /^--(.+?)(?:=(.+))?$/s.exec(arg) ?? [];
    if (value !== undefined) {
      const isBoolean = this.#booleans.has(name);
      this.#set(name, isBoolean ? value !== "false" : value, arg);
      return false;
    }
    const takesNext = next !== undefined && next !== "" &&
      !next.startsWith("-");
    return this.#setFromNext(name, takesNext, arg, next);
  }

  /** Reads `-n`, `-n value`, `-n=value`, `-n4` or a group of letters. */
  #readShort(arg: string, next: string | undefined): boolean {
    for (let at = 1; at < arg.length - 1; at++) {
      const letter = arg.charAt(at);
      const value = readAttachedValue(letter, arg.slice(at + 1));
      if (value !== undefined) {
        this.#set(letter, value, arg);
        return false;
      }
      this.#set(letter, this.#bareValue(letter), arg);
    }
    const takesNext = next !== undefined && next !== "" &&
      !/^--?[^-]/.test(next);
    return this.#setFromNext(arg.slice(-1), takesNext, arg, next);
  }

  /** Even a boolean takes the next argument if that is the word `true` or `false`. */
  #setFromNext(
    name: string,
    takesNext: boolean,
    arg: string,
    next: string | undefined,
  ): boolean {
    const usesNext = takesNext && !this.#booleans.has(name);
    const isTruth = next === "true" || next === "false";
    if (usesNext) this.#set(name, next, arg);
    else if (isTruth) this.#set(name, next === "true", arg);
    else this.#set(name, this.#bareValue(name), arg);
    return usesNext || isTruth;
  }

  #bareValue(name: string): string | boolean {
    return this.#strings.has(name) ? "" : true;
  }

  #set(name: string, value: unknown, arg: string): void {
    if (!this.#booleans.has(name) && !this.#strings.has(name)) {
      if (this.#options.unknown?.(arg, name, value) === false) return;
    }
    const typed = this.#strings.has(name) ? value : toNumber(value);
    const before = this.parsed[name];
    this.parsed[name] = !this.#collected.has(name)
      ? typed
      : Array.isArray(before)
      ? [...before, typed]
      : [typed];
  }

  #addPlain(arg: string): void {
    if (this.#options.unknown?.(arg) === false) return;
    const value = this.#strings.has("_") ? arg : toNumber(arg);
    this.parsed._.push(value as string | number);
  }
}

/** Returns the value that is written right behind a letter, as in `-n4`, `-n=x`, `-n/dir`, `-n-`. */
function readAttachedValue(letter: string, rest: string): string | undefined {
  if (/[A-Za-z]/.test(letter)) {
    if (rest.includes("=")) return rest.split(/=(.+)/s)[1] ?? "";
    if (/\d+(\.\d*)?(e-?\d+)?$/.test(rest)) return rest;
  }
  return rest === "-" || (rest.length > 1 && /^\W/.test(rest))
    ? rest
    : undefined;
}

/** Converts text that looks like a number; returns other text unchanged. */
function toNumber(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return /^0x[0-9a-f]+$/i.test(value) ||
      /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(e[-+]?\d+)?$/.test(value)
    ? Number(value)
    : value;
}
