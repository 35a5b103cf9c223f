/**
 * What a command of `multus` is.
 *
 * @module
 */

import type { Environment } from "../../cni/args.ts";

/** What messages call the program. */
export const NAME = "multus";

/** What a command is run in. */
export interface CommandWorld {
  readonly env: Environment;
  /** Types of the plugins that the executable is, by the name it is called by. */
  readonly pluginNames: readonly string[];
  /** All names that the executable can be called by. */
  readonly knownNames: readonly string[];
  /** Prints a text and a newline; returns the exit code: 1 if it cannot. */
  readonly onStdout: (text: string) => number;
  /** Takes text for people, as it is written. */
  readonly onStderr: (text: string) => void;
  /** Aborted when the command shall end. */
  readonly signal: AbortSignal;
}

/**
 * Does what a command does.
 *
 * @returns The exit code
 */
export type Run = (
  args: readonly string[],
  world: CommandWorld,
) => Promise<number>;

/** A row of the table of commands. */
export interface Command {
  /** What it does: a verb first, without a full stop. */
  readonly summary: string;
  /** Loads it. */
  readonly load: () => Promise<Run>;
}
