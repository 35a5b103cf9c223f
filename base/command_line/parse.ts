/**
 * Parses a command line with the table of commands.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import {
  type AnyFlagValues,
  type CommandRow,
  type Completes,
  type Flag,
  flagsOf,
  type FlagTable,
  type Program,
  STANDARD_FLAGS,
} from "./command.ts";
import { findNearest } from "./suggest.ts";
import { refuse, UsageError } from "./usage_error.ts";

/** A parsed command line. */
export interface CommandLine {
  /** The words of the command that the command line contains. */
  readonly words: readonly string[];
  /** The command; undefined if there are only flags, or the name of a group. */
  readonly row: CommandRow | undefined;
  readonly args: readonly string[];
  readonly flags: AnyFlagValues;
}

/**
 * Parses a command line. Flags are allowed before, between and after the words of the
 * command.
 *
 * With `--help`, arguments are not checked.
 *
 * @param argv The arguments after the program's name
 * @throws {UsageError} If something is unknown or missing
 */
export function parseCommandLine(
  program: Program,
  argv: readonly string[],
): CommandLine {
  const end = argv.indexOf("--");
  const after = end < 0 ? [] : argv.slice(end + 1);
  const table: FlagTable = Object.assign(
    {},
    ...program.rows.map(flagsOf),
    STANDARD_FLAGS,
  );
  const before = replaceSynonym(
    program,
    end < 0 ? argv : argv.slice(0, end),
    table,
  );
  const read = readFlags(before, table);
  const { row, words } = findRow(program, read.rest);
  if (row?.isWrapper) {
    const wrapped = readWrapper(row, before, table);
    // A second `--`, and a `--` after the other command's name, belong to that
    // command.
    const isOurs = wrapped.rest.length < (row.args?.length ?? 0);
    const tail = end < 0 || isOurs ? after : ["--", ...after];
    return check(program, row, { ...wrapped, rest: wrapped.rest.concat(tail) });
  }
  const rest = read.rest.slice(words.length).concat(after);
  if (row !== undefined) return check(program, row, { ...read, rest });
  const flags = takeFlags(program.name, STANDARD_FLAGS, read);
  return { words, row, args: [], flags };
}

/** Replaces the first word if it is a synonym of a command. */
function replaceSynonym(
  { synonyms = {} }: Program,
  argv: readonly string[],
  table: FlagTable,
): readonly string[] {
  const { rest } = readFlags(argv, table, true);
  const [word = "", ...others] = rest;
  if (!Object.hasOwn(synonyms, word)) return argv;
  const flags = argv.slice(0, argv.length - rest.length);
  return [...flags, ...(synonyms[word] ?? word).split(" "), ...others];
}

/** The output of `@std/cli`. */
interface RawFlags {
  /** Texts by name; "" without a value. */
  readonly values: Readonly<Record<string, string>>;
  /** Arguments that look like flags, but are in no table. */
  readonly unknown: readonly string[];
  readonly rest: readonly string[];
}

/** @param stopEarly Stops at the first word, and keeps the rest as it is */
function readFlags(
  argv: readonly string[],
  table: FlagTable,
  stopEarly = false,
): RawFlags {
  const unknown: string[] = [];
  const parsed: Record<string, unknown> = parseArgs(
    spellOut(argv, table, stopEarly),
    {
      string: ["_", ...Object.keys(table)],
      stopEarly,
      unknown: (arg, key) => {
        if (key === undefined) return;
        unknown.push(arg);
        return false;
      },
    },
  );
  const { _: rest, ...values } = parsed;
  // All flags are declared as strings.
  return { values, unknown, rest } as RawFlags;
}

/**
 * Represents an empty value: no argument contains it, and `@std/cli` refuses
 * `--name=`.
 */
const EMPTY = "\0";

/** Rewrites flags as `--name=value`, the form in which `@std/cli` reads any value. */
function spellOut(
  argv: readonly string[],
  table: FlagTable,
  stopEarly: boolean,
): string[] {
  const spelled: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const arg = argv[at] ?? "";
    if (stopEarly && !/^-./s.test(arg)) return spelled.concat(argv.slice(at));
    const { name, flag, given } = findFlag(arg, table);
    if (flag === undefined) {
      spelled.push(arg);
      continue;
    }
    const next = argv[at + 1];
    const usesNext = given === undefined && flag.value !== undefined &&
      next !== undefined && !/^-./s.test(next);
    if (usesNext) at++;
    const value = given ??
      (usesNext ? next : flag.value === undefined ? "true" : undefined);
    spelled.push(`--${name}${value === undefined ? "" : `=${value || EMPTY}`}`);
  }
  return spelled;
}

/** Finds the flag that an argument names, and the value in the same argument. */
export function findFlag(
  arg: string,
  table: FlagTable,
): { name: string; flag?: Flag | undefined; given?: string | undefined } {
  const [, long = "", value] = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? [];
  if (Object.hasOwn(table, long)) {
    return { name: long, flag: table[long], given: value };
  }
  const [, letter, given] = /^-([^-])=?(.+)?$/s.exec(arg) ?? [];
  const [name = "", flag] = Object.entries(table)
    .find(([, { short }]) => letter !== undefined && short?.includes(letter)) ??
    [];
  return { name, flag, given };
}

/** Finds the command with the first word, or the first two words. */
function findRow(
  { name, rows }: Program,
  rest: readonly string[],
): { row?: CommandRow; words: string[] } {
  const [first = "", second = ""] = rest;
  if (rest.length === 0) return { words: [] };
  const single = rows.find((row) => row.name === first);
  const group = rows.filter((row) => row.name.startsWith(`${first} `));
  if (group.length === 0 || second === "") {
    if (single !== undefined) return { row: single, words: [first] };
    if (group.length > 0) return { words: [first] };
    throw unknownCommand(name, first, listWords(rows));
  }
  const row = group.find((row) => row.name === `${first} ${second}`);
  if (row !== undefined) return { row, words: [first, second] };
  throw unknownCommand(`${name} ${first}`, second, listWords(group, 1));
}

/** Lists the first or second words of commands. */
function listWords(rows: readonly CommandRow[], at = 0): string[] {
  return rows.filter(({ isHidden }) => isHidden !== true)
    .flatMap(({ name }) => name.split(" ")[at] ?? []);
}

function unknownCommand(
  parent: string,
  word: string,
  known: readonly string[],
): UsageError {
  const problem = `Cannot run "${parent} ${word}": unknown command`;
  return new UsageError(
    problem + suggestOrHelp(findNearest(word, known), parent),
  );
}

function suggestOrHelp(nearest: string | undefined, command: string): string {
  return nearest === undefined
    ? `; see ${command} --help`
    : `; did you mean ${nearest}?`;
}

/** Reads a command's arguments. The last argument can be a different command's line. */
function readWrapper(
  row: CommandRow,
  argv: readonly string[],
  table: FlagTable,
): RawFlags {
  const words = row.name.split(" ").length;
  const own = (row.args?.length ?? 1) - 1;
  let rest = argv, values = {};
  const [unknown, args]: [string[], string[]] = [[], []];
  for (let at = 0; at < words + own; at++) {
    const read = readFlags(rest, table, true);
    values = { ...values, ...read.values };
    unknown.push(...read.unknown);
    args.push(...read.rest.slice(0, 1));
    rest = read.rest.slice(1);
  }
  return { values, unknown, rest: [...args.slice(words), ...rest] };
}

function check(
  program: Program,
  row: CommandRow,
  read: RawFlags,
): CommandLine {
  const command = `${program.name} ${row.name}`;
  const flags = takeFlags(command, flagsOf(row), read);
  if (flags["help"] !== true) checkArguments(command, row, read.rest);
  return { words: row.name.split(" "), row, args: read.rest, flags };
}

/** Reads the values of a command's flags; refuses other flags. */
function takeFlags(
  command: string,
  table: FlagTable,
  { values, unknown }: RawFlags,
): AnyFlagValues {
  const [stranger] = unknown;
  if (stranger !== undefined) throw unknownFlag(command, stranger, table);
  const flags: Record<string, string | boolean | undefined> = {};
  for (const [name, flag] of Object.entries(table)) {
    flags[name] = flag.default ??
      (flag.value === undefined ? false : undefined);
  }
  for (const [name, text] of Object.entries(values)) {
    const flag = table[name];
    if (flag === undefined) throw unknownFlag(command, `--${name}`, table);
    flags[name] = flag.value === undefined
      ? readSwitch(command, name, text)
      : readValue(command, name, flag, text);
  }
  return flags;
}

function unknownFlag(
  command: string,
  arg: string,
  table: FlagTable,
): UsageError {
  const [written = arg] = arg.split("=");
  const nearest = findNearest(written.replace(/^-+/, ""), Object.keys(table));
  return new UsageError(
    `Cannot run "${command}": unknown flag ${written}` +
      suggestOrHelp(nearest && `--${nearest}`, command),
  );
}

/** Reads a boolean like Go, so that manifests for Go programs work. Source: Go strconv `ParseBool`. */
function readSwitch(command: string, name: string, text: string): boolean {
  if (/^(1|t|T|TRUE|true|True)$/.test(text)) return true;
  if (/^(0|f|F|FALSE|false|False)$/.test(text)) return false;
  const shown = text.replace(EMPTY, "");
  throw refuse(command, `--${name} must be true or false, not "${shown}"`);
}

function readValue(
  command: string,
  name: string,
  flag: Flag,
  text: string,
): string {
  const { value, completes } = flag;
  if (text === "" || text === EMPTY && flag.default !== "") {
    throw new UsageError(
      `Cannot run "${command}": --${name} needs a value, --${name}=${value}`,
    );
  }
  if (text === EMPTY) return "";
  return chooseWord(command, `--${name}`, completes, text);
}

/**
 * Finds the word in a list that equals a text except for case; returns other texts
 * unchanged.
 */
function chooseWord(
  command: string,
  what: string,
  completes: Completes | undefined,
  text: string,
): string {
  if (!Array.isArray(completes)) return text;
  const known = completes.find((word) => word === text.toLowerCase());
  if (known !== undefined) return known;
  const words = completes.join(", ").replace(/, (\w+)$/, " or $1");
  throw refuse(command, `${what} must be ${words}, not "${text}"`);
}

function checkArguments(
  command: string,
  row: CommandRow,
  args: readonly string[],
): void {
  const declared = row.args ?? [];
  const usage = `usage: ${command} ${formatArguments(row)}`.trim();
  const missing = declared
    .find(({ isOptional }, at) => !isOptional && args[at] === undefined);
  if (missing !== undefined) {
    throw new UsageError(
      `Cannot run "${command}": ${missing.name} is missing; ${usage}`,
    );
  }
  for (const [at, { name, completes }] of declared.entries()) {
    chooseWord(command, name, completes, args[at] ?? "");
  }
  const stray = args[declared.length];
  if (stray === undefined || declared.at(-1)?.isRepeated) return;
  throw new UsageError(
    `Cannot run "${command}": unexpected argument "${stray}"; ${usage}`,
  );
}

/** Formats a command's arguments for usage lines. */
export function formatArguments({ args = [], isWrapper }: CommandRow): string {
  return args.filter(({ isHidden }) => !isHidden)
    .map(({ name, isOptional, isRepeated }, at) => {
      const isCommand = isWrapper === true && at === args.length - 1;
      const dots = isRepeated ? `${name}...` : name;
      const word = isCommand ? `-- ${dots}` : dots;
      return isOptional ? `[${word}]` : word;
    }).join(" ");
}
