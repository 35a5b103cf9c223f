/**
 * What a command of the `cni` tool is: a row of a table, from which help and
 * completion are made, and a function that is loaded when it is run.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import type { UsageError } from "./usage_error.ts";
import type { Style } from "./style.ts";

/** What completion offers for a word. */
export type Completes =
  | "network"
  | "netns"
  | "command"
  | "file"
  | "directory"
  | readonly string[];

/** A flag of one or more commands. */
export interface Flag {
  /** The letter for `-i`. */
  readonly short?: string;
  /** What help calls the value; a flag without is there or not. */
  readonly value?: string;
  /** What it does, without a full stop. */
  readonly summary: string;
  /** What completion offers for the value. */
  readonly completes?: Completes;
}

/** Every flag by its long name. */
export const FLAGS = {
  "ifname": {
    short: "i",
    value: "NAME",
    summary:
      "the interface's name in the namespace, instead of CNI_IFNAME or eth0",
  },
  "container-id": {
    value: "ID",
    summary: "the container's ID, instead of one made of the namespace's path",
  },
  "no-undo": {
    summary: "leaves what a failed ADD has made, for a look at it",
  },
  "all": {
    summary: "names no namespace that stays: removes all attachments",
  },
  "dry-run": { summary: "shows what would be deleted, and deletes nothing" },
  "strict": { summary: "fails where there would only be a note or a warning" },
  "force": { summary: "deletes it even if it is still attached to networks" },
  "to": {
    value: "FORM",
    summary: "the form that is wanted, chain or list, instead of the other one",
    completes: ["chain", "list"],
  },
  "output": {
    value: "FILE",
    summary: "writes to this file, or to stdout if it is -",
    completes: "file",
  },
  "write": { summary: "writes to the file itself" },
  "cni-path": {
    value: "FOLDERS",
    summary: "where plugins are, joined by colons, instead of CNI_PATH",
    completes: "directory",
  },
  "conf-dir": {
    value: "FOLDER",
    summary: "where configurations are, instead of NETCONFPATH",
    completes: "directory",
  },
  "cache-dir": {
    value: "FOLDER",
    summary: "where attachments are cached, instead of /var/lib/cni",
    completes: "directory",
  },
  "wide": { summary: "shows container IDs in full" },
  "exit-code": { summary: "exits with 1 if anything has a problem" },
  "undo-timeout": {
    value: "TIME",
    summary: "gives up undoing a failed ADD after this time (default 30s)",
  },
  "verbose": { summary: "shows what plugins print while ADD is undone" },
  "timeout": {
    value: "TIME",
    summary: "gives up after this time: 10s, 2m, 1h30m; 0 for never",
  },
  "json": { summary: "prints one JSON document, errors included" },
  "help": { short: "h", summary: "tells about the command" },
  "version": { short: "V", summary: "prints the version" },
} as const satisfies Readonly<Record<string, Flag>>;

/** The shells that commands are completed in. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** The long name of a flag. */
export type FlagName = keyof typeof FLAGS;

/** A positional argument. */
export interface Argument {
  /** What help calls it, in capitals. */
  readonly name: string;
  /** What it is, without a full stop. */
  readonly summary: string;
  readonly completes?: Completes;
  /** Whether it may be missing. */
  readonly isOptional?: boolean;
  /** Whether there may be more of it; only of the last one. */
  readonly isRepeated?: boolean;
}

/** An example in a command's help. */
export interface Example {
  /** A command line. */
  readonly line: string;
  /** What it is for, without a full stop. */
  readonly what: string;
}

/** A command, but for what it does. */
export interface CommandRow {
  /** One word, or two such as `netns add`. */
  readonly name: string;
  /** What it does: a verb first, without a full stop. */
  readonly summary: string;
  /** What else is to be known: paragraphs. */
  readonly about?: readonly string[];
  readonly args?: readonly Argument[];
  /** Besides `--json` and `--help`, which all have. */
  readonly flags?: readonly FlagName[];
  /** Has the flag `--timeout`, with this default. */
  readonly timeout?: string;
  /** The last argument is a command line of another program: its flags are not ours. */
  readonly isWrapper?: boolean;
  /** Neither help nor completion mention it. */
  readonly isHidden?: boolean;
  readonly examples?: readonly Example[];
  /** Loads what it does. */
  readonly load: () => Promise<Run>;
}

/** A program: the commands that it has. */
export interface Program {
  /** Its name, for messages. */
  readonly name: string;
  /** What it is for. */
  readonly about: string;
  readonly rows: readonly CommandRow[];
  /** Explains how it is used, if not by the error's message. */
  readonly explainUsage?: (error: UsageError) => string;
}

/** The values of the flags that were given. */
export type FlagValues = ReadonlyMap<FlagName, string | true>;

/** A call of a command. */
export interface CommandCall {
  /** The program that it is a command of. */
  readonly program: Program;
  readonly args: readonly string[];
  readonly flags: FlagValues;
  readonly env: Environment;
  /** Takes text for people, as it is written. */
  readonly onStderr: (text: string) => void;
  /** Shows an error now, if the command still has work to do before it throws it. */
  readonly showFailure: (error: Error) => void;
  /** How long it may take, in ms; 0 is as long as it wants. */
  readonly timeoutMs: number;
  /** Aborted when the user has had enough. */
  readonly interrupt: AbortSignal;
  /** Aborted then too, and when time is up. */
  readonly signal: AbortSignal;
}

/** What a command prints. */
export interface Output {
  /** The document that `--json` prints. */
  readonly json: unknown;
  /** What people see, without the newline at its end; "" is nothing. */
  readonly text: string | ((style: Style) => string);
  /** Leaves the newline out unless it is for a terminal, as cnitool does. */
  readonly isBare?: boolean;
  /** What people shall know besides, without a newline at its end. */
  readonly note?: string | undefined;
  /** 0 by default. */
  readonly exitCode?: number;
}

/** Does what a command does. */
export type Run = (call: CommandCall) => Output | Promise<Output>;

/** Finds the value of a flag that has one. */
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
