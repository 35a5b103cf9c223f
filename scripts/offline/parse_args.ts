/**
 * Stands in for the part of `jsr:@std/cli/parse-args` that the code uses,
 * where jsr.io is out of reach: everything but `negatable`, and names with dots
 * stay as they are.
 *
 * Source: https://jsr.io/@std/cli.
 *
 * @module
 */

type Aliases = Readonly<Record<string, string | readonly string[]>>;

/** The other names of the flag `Name`. */
type AliasOf<Name, A extends Aliases> = Name extends keyof A
  ? A[Name] extends readonly string[] ? A[Name][number] : A[Name]
  : never;

/** The values of the declared flags, before aliases. */
type Declared<
  B extends string,
  S extends string,
  C extends string,
  D extends object,
> =
  & { [Name in Exclude<B, C | keyof D>]: boolean }
  & { [Name in Extract<B, C>]: boolean[] }
  & { [Name in Exclude<S, C | keyof D>]?: string }
  & { [Name in Extract<S, C>]: string[] }
  & { [Name in Exclude<C, B | S>]: unknown[] }
  & {
    [Name in Exclude<keyof D, C>]:
      | D[Name]
      | (Name extends B ? boolean : Name extends S ? string : unknown);
  };

type WithAliases<V, A extends Aliases> = {
  [Name in keyof V as Name | Extract<AliasOf<Name, A>, string>]: V[Name];
};

/** The flags by name, the rest under `_`, and what follows `--` under that name. */
export type Args<V = Record<string, unknown>> =
  & Record<string, unknown>
  & V
  & { _: (string | number)[]; "--"?: string[] };

/** Declares the flags and their values. */
export interface ParseOptions<
  B extends string = string,
  S extends string = string,
  C extends string = string,
  D extends Record<string, unknown> = Record<string, unknown>,
  A extends Aliases = Aliases,
> {
  /** Flags without a value; `true` for all flags with `--` and without `=`. */
  boolean?: boolean | B | readonly B[];
  /** Flags with text as value, even if it looks like a number. */
  string?: S | readonly S[];
  /** Flags that may come several times; all their values are kept. */
  collect?: C | readonly C[];
  /** Values of flags that are not given. */
  default?: D;
  /** Other names for flags. */
  alias?: A;
  /** Stops parsing flags at the first positional argument. */
  stopEarly?: boolean;
  /** Is asked about each argument that is not declared; `false` drops it. */
  unknown?: (arg: string, key?: string, value?: unknown) => unknown;
  /** Puts arguments after `--` into `--` instead of `_`. */
  "--"?: boolean;
}

/** Sorts command-line arguments into flags and others. Never fails. */
export function parseArgs<
  const B extends string = never,
  const S extends string = never,
  const C extends string = never,
  D extends Record<string, unknown> = Record<never, never>,
  const A extends Aliases = Record<never, never>,
>(
  args: readonly string[],
  options: ParseOptions<B, S, C, D, A> = {},
): Args<WithAliases<Declared<B, S, C, D>, A>> {
  const reader = new ArgumentReader(options);
  const end = args.indexOf("--");
  const flags = end < 0 ? args : args.slice(0, end);
  const rest = end < 0 ? [] : args.slice(end + 1);
  reader.readAll(flags);
  reader.fillDefaults();
  if (options["--"] === true) reader.parsed["--"] = [...rest];
  else reader.parsed._.push(...rest);
  return reader.parsed as Args<WithAliases<Declared<B, S, C, D>, A>>;
}

/** Walks along the arguments and fills in the result. */
class ArgumentReader {
  readonly parsed: Args = { _: [] };
  readonly #options: ParseOptions;
  readonly #aliases: ReadonlyMap<string, readonly string[]>;
  readonly #booleans: ReadonlySet<string>;
  readonly #strings: ReadonlySet<string>;
  readonly #collected: ReadonlySet<string>;

  constructor(options: ParseOptions) {
    const { boolean, string, collect, alias } = options;
    this.#options = options;
    this.#aliases = groupAliases(alias ?? {});
    this.#booleans = this.#namesOf(typeof boolean === "boolean" ? [] : boolean);
    this.#strings = this.#namesOf(string);
    this.#collected = this.#namesOf(collect);
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
    for (const [name, value] of Object.entries(this.#options.default ?? {})) {
      this.#fill(name, value);
    }
    for (const name of this.#booleans) {
      this.#fill(name, this.#collected.has(name) ? [] : false);
    }
    for (const name of this.#strings) {
      if (this.#collected.has(name)) this.#fill(name, []);
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
    const takesNext = this.#options.boolean !== true && next !== undefined &&
      next !== "" && !next.startsWith("-");
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
    if (!this.#isKnown(name, arg)) {
      if (this.#options.unknown?.(arg, name, value) === false) return;
    }
    const typed = this.#strings.has(name) ? value : toNumber(value);
    for (const key of [name, ...this.#aliases.get(name) ?? []]) {
      const before = this.parsed[key];
      this.parsed[key] = !this.#collected.has(name)
        ? typed
        : Array.isArray(before)
        ? [...before, typed]
        : [typed];
    }
  }

  #isKnown(name: string, arg: string): boolean {
    return this.#booleans.has(name) || this.#strings.has(name) ||
      this.#aliases.has(name) ||
      (this.#options.boolean === true && /^--[^=]+$/.test(arg));
  }

  #addPlain(arg: string): void {
    if (this.#options.unknown?.(arg) === false) return;
    const value = this.#strings.has("_") ? arg : toNumber(arg);
    this.parsed._.push(value as string | number);
  }

  #fill(name: string, value: unknown): void {
    if (Object.hasOwn(this.parsed, name)) return;
    for (const key of [name, ...this.#aliases.get(name) ?? []]) {
      this.parsed[key] = value;
    }
  }

  #namesOf(names: string | readonly string[] | undefined): Set<string> {
    const list = typeof names === "string" ? [names] : names ?? [];
    return new Set(
      list.flatMap((name) => [name, ...this.#aliases.get(name) ?? []]),
    );
  }
}

/** Maps each name that has aliases, and each alias, to the others of its group. */
function groupAliases(aliases: Aliases): Map<string, readonly string[]> {
  const groups = new Map<string, readonly string[]>();
  for (const [name, others] of Object.entries(aliases)) {
    const group = [name].concat(others);
    for (const member of group) {
      groups.set(member, group.filter((other) => other !== member));
    }
  }
  return groups;
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
