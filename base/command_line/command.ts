/**
 * Commands of a program. A command is a row in a table, which also provides
 * help and completion, and a function that is loaded on demand.
 *
 * @module
 */

import type { Environment } from "../process/environment.ts";
import { LONGEST_TIMER_MS, parseDuration } from "../duration.ts";
import type { Style } from "./style.ts";
import { refuse } from "./usage_error.ts";

/** The words that completion offers: words of a kind, or from a list. */
export type Completes =
  | "network"
  | "configuration"
  | "netns"
  | "attached"
  | "interface"
  | "container"
  | "help"
  | "command"
  | "file"
  | "directory"
  | "starter"
  | "plugin"
  | "plugins"
  | "schema"
  | readonly string[];

/** A flag: with a value if the value has a name, otherwise a switch. */
export interface Flag {
  /** The letters of its short forms, as in `-i`; help shows the first. */
  readonly short?: string;
  /** The value's name in help; absent for a switch. */
  readonly value?: string;
  /** The value of an omitted flag. Only a default of "" permits an empty value. */
  readonly default?: string | true;
  /** Description: a verb in the imperative, or a noun; no full stop. */
  readonly summary: string;
  /** Completion of the value. A list contains all valid values. */
  readonly completes?: Completes;
}

/** Flags by long name. */
export type FlagTable = Readonly<Record<string, Flag>>;

/** The values of flags: from the command line, or the defaults. */
export type FlagValues<T extends FlagTable> = {
  readonly [Name in keyof T]: T[Name] extends { readonly value: string }
    ? WordOf<T[Name]> | DefaultOf<T[Name]>
    : boolean;
};

type WordOf<F> = F extends { readonly completes: readonly (infer Word)[] }
  ? Word
  : string;
type DefaultOf<F> = F extends { readonly default: infer Default } ? Default
  : undefined;

/** The values of any flags. */
export type AnyFlagValues = Readonly<
  Record<string, string | boolean | undefined>
>;

/** The flags of all programs. */
export const STANDARD_FLAGS = {
  "json": { summary: "print one JSON document, errors included" },
  "help": { short: "h", summary: "show this help" },
  "version": { short: "Vv", summary: "print the version" },
} as const satisfies FlagTable;

/** The flags of commands that list things. */
export const LISTING = {
  "wide": { summary: "show all columns, paths and container IDs in full" },
  "output": {
    short: "o",
    value: "FORMAT",
    summary: "wide, the same as --wide, or name, only what identifies each",
    completes: ["wide", "name"],
  },
} as const satisfies FlagTable;

/** The flag of commands with a time limit. */
const TIMEOUT: Flag = {
  value: "TIME",
  summary: "time limit such as 10s or 1h30m; 0 for none",
};

/** A positional argument. */
export interface Argument {
  /** Its name in help, in capitals. */
  readonly name: string;
  /** Description, without a full stop. */
  readonly summary: string;
  readonly completes?: Completes;
  /** Whether it can be omitted. */
  readonly isOptional?: boolean;
  /** Whether it can be repeated; only for the last argument. */
  readonly isRepeated?: boolean;
  /** Whether it is accepted, but omitted from help. */
  readonly isHidden?: boolean;
}

/** Additional help on a command. */
export interface HelpText {
  /** Further paragraphs. */
  readonly about?: readonly string[];
  /** Command lines and their purposes, without a full stop. */
  readonly examples?: Readonly<Record<string, string>>;
}

/** Texts by the names of commands. */
export type HelpTexts = Readonly<Record<string, HelpText>>;

/** A command, without its implementation. */
export interface CommandRow extends HelpText {
  /** A word, or two words such as `netns add`. */
  readonly name: string;
  /** Description, starting with a verb in the imperative, without a full stop. */
  readonly summary: string;
  readonly args?: readonly Argument[];
  /** Flags in addition to `--json` and `--help`, which all commands have. */
  readonly flags?: FlagTable;
  /** Default of the flag `--timeout`; absent if the command has no time limit. */
  readonly timeout?: string;
  /** Whether it runs until a signal, and logs the signal itself. */
  readonly isService?: boolean;
  /** Time limit for exiting after a signal, in ms; absent for no limit. */
  readonly graceMs?: number;
  /** Whether the last argument is another program's command line. Its flags are not parsed. */
  readonly isWrapper?: boolean;
  /** Whether help and completion omit it. */
  readonly isHidden?: boolean;
  /** Loads the implementation. */
  readonly load: () => Promise<Run>;
}

/** A program and its commands. */
export interface Program {
  /** Its name in messages. */
  readonly name: string;
  /** Its purpose. */
  readonly about: string;
  readonly rows: readonly CommandRow[];
  /** Loads help texts that the commands' rows lack. */
  readonly texts?: () => Promise<HelpTexts>;
  /** Synonyms of commands, from other tools. */
  readonly synonyms?: Readonly<Record<string, string>>;
  /** Whether long flags can have a single dash, as in Go. */
  readonly hasGoFlags?: boolean;
  /** Whether it prints its help and succeeds without a command, as Go's cobra does. */
  readonly helpsWithoutCommand?: boolean;
}

/** A call of a command. */
export interface CommandCall<F = AnyFlagValues> {
  /** The program that the command belongs to. */
  readonly program: Program;
  /** The program and the command, such as `cni add`. */
  readonly command: string;
  readonly args: readonly string[];
  readonly flags: F;
  readonly env: Environment;
  /** Receives text for people immediately. */
  readonly onStderr: (text: string) => void;
  /** Shows the current step of a long command; undefined without a terminal. */
  readonly onProgress?: ((text: string) => void) | undefined;
  /**
   * Prints an error immediately if the command has more work to do before it throws
   * the error.
   */
  readonly showFailure: (error: Error) => void;
  /** Time limit in ms; 0 for none. */
  readonly timeoutMs: number;
  /** Aborted when the user interrupts the command. */
  readonly interrupt: AbortSignal;
  /** Aborted on interruption and when time is up. */
  readonly signal: AbortSignal;
}

/** The output of a command. */
export interface Output {
  /** The document for `--json`. */
  readonly json: unknown;
  /** The text for people, without the newline at the end; "" for none. */
  readonly text: string | ((style: Style) => string);
  /** Whether to omit the newline unless on a terminal, as cnitool does. */
  readonly isBare?: boolean;
  /** Notes for people on stderr, without the newline at the end. */
  readonly note?: string | ((style: Style) => string) | undefined;
  /** The exit code, 0 by default. */
  readonly exitCode?: number;
}

/**
 * The implementation of a command. It is a method type, so that an implementation can
 * require the flags that its row declares.
 */
export type Run = {
  run(call: CommandCall): Output | Promise<Output>;
}["run"];

/** Returns the flags of a command, starting with its own. */
export function flagsOf({ flags, timeout }: CommandRow): FlagTable {
  const { json, help } = STANDARD_FLAGS;
  const limit = timeout && { timeout: { ...TIMEOUT, default: timeout } };
  return { ...flags, ...limit, json, help };
}

/**
 * Reads a duration from a flag.
 *
 * @returns Milliseconds
 * @throws {UsageError} If it is malformed
 */
export function readDuration(
  { command, flags }: Pick<CommandCall<object>, "command" | "flags">,
  name: string,
): number {
  const text = String((flags as AnyFlagValues)[name]);
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw refuse(
    command,
    `--${name} must be a duration such as 500ms, 45s, 2m or 1h30m, not "${text}"`,
  );
}

/**
 * Reads a waiting time from a flag. Timers cannot hold more than 24 days, so longer
 * times mean no limit.
 *
 * @returns Milliseconds that a timer can hold
 * @throws {UsageError} If it is malformed
 */
export function readTimeLimit(
  call: Pick<CommandCall<object>, "command" | "flags">,
  name: string,
): number {
  return Math.min(readDuration(call, name), LONGEST_TIMER_MS);
}
