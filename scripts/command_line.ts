/**
 * The command lines of tasks.
 *
 * @module
 */

import { parseArgs, type ParseArgsConfig } from "node:util";

/** Prints the usage and exits with 0 if the command line asks for help. */
export function answerHelp(
  usage: string,
  args: readonly string[] = Deno.args,
): void {
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  if (!own.includes("--help") && !own.includes("-h")) return;
  console.log(usage);
  Deno.exit(0);
}

/** Options of a task by name, as `parseArgs()` of node:util takes them. */
type Options = NonNullable<ParseArgsConfig["options"]>;

/** The values of options. */
type Values<T extends Options> = ReturnType<
  typeof parseArgs<{ options: T }>
>["values"];

/**
 * Reads the options of a task, which has no other arguments.
 *
 * @throws {Error} If an argument is unknown, or lacks its value
 */
export function readOptions<const T extends Options>(
  options: T,
  args: readonly string[] = Deno.args,
): Values<T> {
  try {
    return parseArgs({ args: [...args], options }).values as Values<T>;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const [problem] = error.message.split(/\. |\n/);
    throw new Error(`Cannot read the command line: ${problem}; see --help`);
  }
}
