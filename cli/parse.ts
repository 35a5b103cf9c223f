/**
 * Parses a command line with the table of commands.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import {
  type CommandRow,
  type Flag,
  type FlagName,
  FLAGS,
  type FlagValues,
  listFlags,
  type Program,
} from "./command.ts";
import { findNearest } from "./suggest.ts";
import { UsageError } from "./usage_error.ts";

/** A parsed command line. */
export interface CommandLine {
  /** The words of the command, as far as given. */
  readonly words: readonly string[];
  /** The command; undefined if there are only flags, or the name of a group. */
  readonly row: CommandRow | undefined;
  readonly args: readonly string[];
  readonly flags: FlagValues;
}

/**
 * Parses a command line.
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
  const before = end < 0 ? argv : argv.slice(0, end);
  const after = end < 0 ? [] : argv.slice(end + 1);
  const read = readFlags(before);
  const { row, words } = findRow(program, read.rest);
  if (row?.isWrapper) {
    const wrapped = readWrapper(row, before);
    // A second `--`, and those after the other command's name, belong to that
    // command.
    const isOurs = wrapped.rest.length < (row.args?.length ?? 0);
    const tail = end < 0 || isOurs ? after : ["--", ...after];
    return check(program, row, { ...wrapped, rest: wrapped.rest.concat(tail) });
  }
  const rest = read.rest.slice(words.length).concat(after);
  if (row !== undefined) return check(program, row, { ...read, rest });
  const flags = takeFlags(program.name, ["json", "help", "version"], read);
  return { words, row, args: [], flags };
}

/** The output of `@std/cli`. */
interface RawFlags {
  readonly values: Readonly<Record<string, unknown>>;
  /** Arguments that look like flags of no command. */
  readonly unknown: readonly string[];
  readonly rest: readonly string[];
}

/** @param stopEarly Stops at the first word, and keeps the rest as it is */
function readFlags(argv: readonly string[], stopEarly = false): RawFlags {
  const unknown: string[] = [];
  const names = Object.keys(FLAGS) as FlagName[];
  const hasValue = (name: FlagName): boolean => "value" in FLAGS[name];
  const alias = Object.fromEntries(
    names.flatMap((name) => {
      const flag = FLAGS[name];
      return "short" in flag ? [[name, flag.short]] : [];
    }),
  );
  // With stopEarly, the rest belongs to another program.
  const args = stopEarly ? [...argv] : joinDashes(argv);
  const parsed: Record<string, unknown> = parseArgs(args, {
    string: ["_", ...names.filter(hasValue)],
    boolean: names.filter((name) => !hasValue(name)),
    alias,
    stopEarly,
    unknown: (arg, key) => {
      if (key === undefined) return;
      unknown.push(arg);
      return false;
    },
  });
  const { _: rest, ...values } = parsed;
  return { values, unknown, rest: (rest as unknown[]).map(String) };
}

/** Joins a flag with a following `-`, which `@std/cli` does not accept as a value. */
function joinDashes(argv: readonly string[]): string[] {
  const isValue = (at: number): boolean => {
    const [, name = ""] = /^--(.+)$/.exec(argv[at - 1] ?? "") ?? [];
    const flag: Flag | undefined = FLAGS[name as FlagName];
    return argv[at] === "-" && flag?.value !== undefined;
  };
  return argv.map((arg, at) => isValue(at + 1) ? `${arg}=-` : arg)
    .filter((_, at) => !isValue(at));
}

/** Finds the command by the first word, or the first two. */
function findRow(
  { name, rows }: Program,
  rest: readonly string[],
): { row?: CommandRow; words: string[] } {
  const [first = "", second = ""] = rest;
  if (rest.length === 0) return { words: [] };
  const single = rows.find((row) => row.name === first);
  if (single !== undefined) return { row: single, words: [first] };
  const group = rows.filter((row) => row.name.startsWith(`${first} `));
  if (group.length === 0) throw unknownCommand(name, first, listWords(rows));
  if (second === "") return { words: [first] };
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
  return new UsageError(
    `Cannot run "${parent} ${word}": unknown command` +
      didYouMean(findNearest(word, known), parent),
  );
}

function didYouMean(nearest: string | undefined, command: string): string {
  return nearest === undefined
    ? `; see ${command} --help`
    : `; did you mean ${nearest}?`;
}

/** Reads a command's arguments. The last one may be another command line. */
function readWrapper(row: CommandRow, argv: readonly string[]): RawFlags {
  const words = row.name.split(" ").length;
  const own = (row.args?.length ?? 1) - 1;
  let rest = argv, values = {};
  const [unknown, args]: [string[], string[]] = [[], []];
  for (let at = 0; at < words + own; at++) {
    const read = readFlags(rest, true);
    const given = Object.entries(read.values)
      .filter(([, value]) => value !== false);
    values = { ...values, ...Object.fromEntries(given) };
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
  const flags = takeFlags(command, listFlags(row), read);
  const line = { words: row.name.split(" "), row, args: read.rest, flags };
  if (!flags.has("help")) checkArguments(command, row, read.rest);
  return line;
}

/** Reads the values of a command's flags; refuses other flags. */
function takeFlags(
  command: string,
  known: readonly FlagName[],
  { values, unknown }: RawFlags,
): FlagValues {
  const [stranger] = unknown;
  if (stranger !== undefined) throw unknownFlag(command, stranger, known);
  const flags = new Map<FlagName, string | true>();
  for (const name of Object.keys(FLAGS) as FlagName[]) {
    const value = values[name];
    if (value === undefined || value === false) continue;
    if (!known.includes(name)) throw unknownFlag(command, `--${name}`, known);
    if (value === "") throw missingValue(command, name);
    flags.set(name, typeof value === "string" ? value : true);
  }
  return flags;
}

function unknownFlag(
  command: string,
  arg: string,
  known: readonly FlagName[],
): UsageError {
  const [written = arg] = arg.split("=");
  const own = known.find((name) => written === `--${name}`);
  if (own !== undefined) return missingValue(command, own);
  const nearest = findNearest(written.replace(/^-+/, ""), known);
  return new UsageError(
    `Cannot run "${command}": unknown flag ${written}` +
      didYouMean(nearest && `--${nearest}`, command),
  );
}

function missingValue(command: string, name: FlagName): UsageError {
  const flag = FLAGS[name];
  const value = "value" in flag ? flag.value : "nothing";
  return new UsageError(
    `Cannot run "${command}": --${name} needs a value, --${name}=${value}`,
    { isIncomplete: true },
  );
}

function checkArguments(
  command: string,
  row: CommandRow,
  args: readonly string[],
): void {
  const declared = row.args ?? [];
  const missing = declared
    .find(({ isOptional }, at) =>
      isOptional !== true && args[at] === undefined
    );
  if (missing !== undefined) {
    throw new UsageError(
      `Cannot run "${command}": ${missing.name} is missing; usage: ` +
        `${command} ${formatArguments(row)}`,
      { isIncomplete: true },
    );
  }
  const stray = args[declared.length];
  if (stray === undefined || declared.at(-1)?.isRepeated) return;
  throw new UsageError(
    `Cannot run "${command}": unexpected argument "${stray}"; usage: ` +
      `${command} ${formatArguments(row)}`.trim(),
  );
}

/** Formats a command's arguments for usage lines. */
export function formatArguments({ args = [], isWrapper }: CommandRow): string {
  return args.map(({ name, isOptional, isRepeated }, at) => {
    const isCommand = isWrapper === true && at === args.length - 1;
    const dots = isRepeated ? `${name}...` : name;
    const word = isCommand ? `-- ${dots}` : dots;
    return isOptional ? `[${word}]` : word;
  }).join(" ");
}
