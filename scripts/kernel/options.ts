/**
 * The command line of `deno task test:kernel`.
 *
 * @module
 */

import { CORE_FILTER } from "./select.ts";

/** The options and files on the command line. */
export interface KernelOptions {
  /** Whether only the part is run that the gate runs. */
  readonly core: boolean;
  /** Whether what passes is shown as well. */
  readonly verbose: boolean;
  /** The only files to run; empty for the whole kernel part. */
  readonly files: readonly string[];
  /** More arguments for each `deno test`. */
  readonly testArgs: readonly string[];
  /** Whether each file has tests to run: no file and no filter was named. */
  readonly isWhole: boolean;
}

/**
 * Reads the command line.
 *
 * @throws {Error} If there is an option that is not known, or `--filter` has no text
 */
export function parseKernelOptions(args: readonly string[]): KernelOptions {
  const files: string[] = [];
  let core = false, verbose = false;
  let filter: string | undefined;
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    if (arg === "--core") core = true;
    else if (arg === "--verbose") verbose = true;
    else if (arg === "--filter") filter = args[++index] ?? "";
    else if (arg.startsWith("--filter=")) filter = arg.slice(9);
    else if (arg.startsWith("-")) throw new Error(`Cannot use "${arg}"`);
    else files.push(arg.replace(/^\.\//, ""));
  }
  if (filter === "") throw new Error("Cannot use --filter without a text");
  if (core && files.length > 0) {
    throw new Error(`Cannot use --core with "${files.join(" ")}"`);
  }
  const isWhole = filter === undefined && files.length === 0;
  filter ??= core ? CORE_FILTER : undefined;
  const testArgs = filter === undefined ? [] : ["--filter", filter];
  return { core, verbose, files, testArgs, isWhole };
}
