/**
 * The interface of the commands of `multus`.
 *
 * @module
 */

import type { Environment } from "../../cni/args.ts";

/** The program's name in messages. */
export const NAME = "multus";

/** The surroundings of a command. */
export interface CommandWorld {
  readonly env: Environment;
  /**
   * Types of the plugins in this executable, which are also the names to call
   * it by.
   */
  readonly pluginNames: readonly string[];
  /** All names under which the executable can be called. */
  readonly knownNames: readonly string[];
  /** Prints a text and a newline; returns the exit code, 1 on failure. */
  readonly onStdout: (text: string) => number;
  /** Writes text for people, unchanged. */
  readonly onStderr: (text: string) => void;
  /** Aborted when the command must end. */
  readonly signal: AbortSignal;
}

/**
 * Runs a command.
 *
 * @returns The exit code
 */
export type Run = (
  args: readonly string[],
  world: CommandWorld,
) => Promise<number>;

/** A row of the table of commands. */
export interface Command {
  /** Description for help: starts with a verb, has no full stop. */
  readonly summary: string;
  /** Loads the command. */
  readonly load: () => Promise<Run>;
}
