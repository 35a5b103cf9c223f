/**
 * The flags of the commands of `multus`, read as Go's pflag reads them: a
 * manifest that was written for the Go program may have `--name=` for nothing,
 * and `--switch=0`.
 *
 * Source: github.com/spf13/pflag `FlagSet.parseLongArg`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";

/** A flag: a switch if its default is a boolean, else one that has a value. */
export interface Flag {
  readonly default: string | boolean;
  /** What it does, without a full stop. */
  readonly summary: string;
  /** What help calls the value. */
  readonly value?: string;
}

/** Flags by their names, without the dashes. */
export type FlagTable = Readonly<Record<string, Flag>>;

/** What was given, or else the defaults. */
export type FlagValues<T extends FlagTable> = {
  readonly [Name in keyof T]: T[Name]["default"] extends boolean ? boolean
    : string;
};

/**
 * Reads flags; of one that is given twice the last counts.
 *
 * @param command What errors call the command, as `multus install`
 * @throws {CniError} 4 if there is anything that the command does not have, or
 *   a value is missing or no boolean
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
  // Each name of the table has a value of its default's type.
  return values as FlagValues<T>;
}

/** Source: Go strconv `ParseBool`. */
function parseBoolean(command: string, name: string, text: string): boolean {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  throw refuse(command, `--${name} is true or false, not "${text}"`);
}

/** Makes the error of a command line that cannot be followed. */
export function refuse(command: string, why: string): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot run "${command}": ${why}; see ${command} --help`,
  );
}

/** Formats what help says of flags: the name, and below it what it does. */
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
