/**
 * Parses the flags of the commands of `multus` like Go's pflag: a manifest for
 * the Go program may have `--name=` for an empty value, and `--switch=0`.
 *
 * Source: github.com/spf13/pflag `FlagSet.parseLongArg`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";

/** A flag: a switch if its default is a boolean, else a flag with a value. */
export interface Flag {
  readonly default: string | boolean;
  /** Description for help, without a full stop. */
  readonly summary: string;
  /** The value's name in help. */
  readonly value?: string;
}

/** Flags by name, without the dashes. */
export type FlagTable = Readonly<Record<string, Flag>>;

/** The given values, or the defaults. */
export type FlagValues<T extends FlagTable> = {
  readonly [Name in keyof T]: T[Name]["default"] extends boolean ? boolean
    : string;
};

/**
 * Reads flags; the last one wins if a flag is repeated.
 *
 * @param command The command's name in errors, such as `multus install`
 * @throws {CniError} 4 if a flag is unknown, or a value is missing or not a
 *   boolean
 */
export function parseFlags<const T extends FlagTable>(
  command: string,
  table: T,
  args: readonly string[],
): FlagValues<T> {
  const values: Record<string, string | boolean> = {};
  for (const [name, flag] of Object.entries(table)) values[name] = flag.default;
  const left = [...args];
  for (let arg = left.shift(); arg !== undefined; arg = left.shift()) {
    const long = arg === "-h" ? "--help" : arg;
    const [, name = "", given] = /^--([^=]+)(?:=(.*))?$/s.exec(long) ?? [];
    const flag = Object.hasOwn(table, name) ? table[name] : undefined;
    if (flag === undefined) throw refuse(command, `there is no "${arg}"`);
    const isSwitch = typeof flag.default === "boolean";
    const text = given ?? (isSwitch ? "true" : left.shift());
    if (text === undefined) throw refuse(command, `--${name} needs a value`);
    values[name] = isSwitch ? parseBoolean(command, name, text) : text;
  }
  // Each name of the table now has a value of its default's type.
  return values as FlagValues<T>;
}

/** Source: Go strconv `ParseBool`. */
function parseBoolean(command: string, name: string, text: string): boolean {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  throw refuse(command, `--${name} is true or false, not "${text}"`);
}

/** Returns the error for an invalid command line. */
export function refuse(command: string, why: string): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot run "${command}": ${why}; see ${command} --help`,
  );
}

/** Formats flags for help: the name, and the description below. */
export function formatFlags(table: FlagTable): string {
  return Object.entries(table).map(([name, flag]) => {
    const value = typeof flag.default === "boolean"
      ? `[=${flag.default}]`
      : `=${flag.value ?? "TEXT"}`;
    const shown = flag.default === "" || typeof flag.default === "boolean"
      ? ""
      : ` (default ${flag.default})`;
    return `  --${name}${value}\n      ${flag.summary}${shown}`;
  }).join("\n");
}
