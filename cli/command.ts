/**
 * Commands of the `cni` tool. A command is a row in a table, which also
 * provides help and completion, and a function that is loaded on demand.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import type { UsageError } from "./usage_error.ts";
import type { Style } from "./style.ts";

/** The words that completion offers. */
export type Completes =
  | "network"
  | "netns"
  | "command"
  | "file"
  | "directory"
  | readonly string[];

/** A flag of one or more commands. */
export interface Flag {
  /** The letter of its short form, as in `-i`. */
  readonly short?: string;
  /** The value's name in help; absent for a flag without a value. */
  readonly value?: string;
  /** Description, starting with a verb, without a full stop. */
  readonly summary: string;
  /** Completion of the value. */
  readonly completes?: Completes;
}

/** All flags by long name. */
export const FLAGS = {
  "ifname": {
    short: "i",
    value: "NAME",
    summary: "name of the interface; overrides CNI_IFNAME (default eth0)",
  },
  "container-id": {
    value: "ID",
    summary: "container ID (default derived from the namespace's path)",
  },
  "no-undo": {
    summary: "does not undo a failed ADD, so that it can be inspected",
  },
  "all": {
    summary: "removes all attachments; takes no namespaces",
  },
  "dry-run": { summary: "shows what would be deleted without deleting it" },
  "strict": { summary: "treats notes and warnings as errors" },
  "force": {
    summary: "deletes the namespace even if it is attached to networks",
  },
  "to": {
    value: "FORM",
    summary: "target form, chain or list (default the other one)",
    completes: ["chain", "list"],
  },
  "output": {
    value: "FILE",
    summary: "writes to this file, or to stdout for -",
    completes: "file",
  },
  "write": { summary: "replaces the input file" },
  "cni-path": {
    value: "FOLDERS",
    summary: "colon-separated folders with plugins; overrides CNI_PATH",
    completes: "directory",
  },
  "conf-dir": {
    value: "FOLDER",
    summary: "folder with configurations; overrides NETCONFPATH",
    completes: "directory",
  },
  "cache-dir": {
    value: "FOLDER",
    summary: "folder with the attachment cache (default /var/lib/cni)",
    completes: "directory",
  },
  "wide": { summary: "shows container IDs in full" },
  "exit-code": { summary: "exits with 1 if there is a problem" },
  "undo-timeout": {
    value: "TIME",
    summary: "time limit for undoing a failed ADD (default 30s)",
  },
  "verbose": { summary: "shows the plugins' output while ADD is undone" },
  "timeout": {
    value: "TIME",
    summary: "time limit, such as 10s, 2m or 1h30m; 0 for none",
  },
  "json": { summary: "prints one JSON document, errors included" },
  "help": { short: "h", summary: "shows help for the command" },
  "version": { short: "V", summary: "prints the version" },
} as const satisfies Readonly<Record<string, Flag>>;

/** The shells that have completion. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** A flag's long name. */
export type FlagName = keyof typeof FLAGS;

/** A positional argument. */
export interface Argument {
  /** Its name in help, in capitals. */
  readonly name: string;
  /** Description, without a full stop. */
  readonly summary: string;
  readonly completes?: Completes;
  /** Whether it may be absent. */
  readonly isOptional?: boolean;
  /** Whether it may repeat; only for the last argument. */
  readonly isRepeated?: boolean;
}

/** An example in a command's help. */
export interface Example {
  /** A command line. */
  readonly line: string;
  /** Its purpose, without a full stop. */
  readonly what: string;
}

/** A command, without its implementation. */
export interface CommandRow {
  /** One word, or two such as `netns add`. */
  readonly name: string;
  /** Description, starting with a verb, without a full stop. */
  readonly summary: string;
  /** Further paragraphs of help. */
  readonly about?: readonly string[];
  readonly args?: readonly Argument[];
  /** Flags in addition to `--json` and `--help`, which all commands have. */
  readonly flags?: readonly FlagName[];
  /** Default of the flag `--timeout`; absent if the command has no such flag. */
  readonly timeout?: string;
  /** Whether the last argument is another program's command line. Its flags are not parsed. */
  readonly isWrapper?: boolean;
  /** Whether help and completion omit it. */
  readonly isHidden?: boolean;
  readonly examples?: readonly Example[];
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
  /** Explains its usage; by default the error's message does. */
  readonly explainUsage?: (error: UsageError) => string;
}

/** The values of the given flags. */
export type FlagValues = ReadonlyMap<FlagName, string | true>;

/** A call of a command. */
export interface CommandCall {
  /** The program that the command belongs to. */
  readonly program: Program;
  readonly args: readonly string[];
  readonly flags: FlagValues;
  readonly env: Environment;
  /** Receives text for people as it is written. */
  readonly onStderr: (text: string) => void;
  /** Prints an error at once, if the command has more work to do before it throws it. */
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
  readonly note?: string | undefined;
  /** 0 by default. */
  readonly exitCode?: number;
}

/** The implementation of a command. */
export type Run = (call: CommandCall) => Output | Promise<Output>;

/** Finds the value of a flag. */
export function findFlag(
  { flags }: { readonly flags: FlagValues },
  name: FlagName,
): string | undefined {
  const value = flags.get(name);
  return value === true ? undefined : value;
}

/** Lists the flags of a command, its own first. */
export function listFlags(row: CommandRow): FlagName[] {
  const timeout: FlagName[] = row.timeout === undefined ? [] : ["timeout"];
  return [...row.flags ?? [], ...timeout, "json", "help"];
}
