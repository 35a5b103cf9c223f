/**
 * The command line of `deno task test`.
 *
 * @module
 */

/** The options of the command line. */
export interface TestOptions {
  /** How many files are run at the same time. */
  readonly jobs: number;
  /** Whether what passes is shown as well. */
  readonly verbose: boolean;
  /** Arguments for `deno test`; with any, it is the only command. */
  readonly denoArgs: readonly string[];
}

/** More at a time would share disks and the kernel's locks rather than win time. */
const MOST_JOBS = 4;

/**
 * One file for each core and two more, within reason: they wait half of their
 * time. With three on two cores, these were idle for a third of the time.
 */
export function chooseJobs(cores: number): number {
  return Math.min(Math.max(cores, 1) + 2, MOST_JOBS);
}

/**
 * Reads the command line.
 *
 * @param cores How many cores the machine has
 * @throws {Error} If `--jobs` has no number, or nothing to share out
 */
export function parseOptions(
  args: readonly string[],
  cores: number,
): TestOptions {
  const denoArgs: string[] = [];
  let jobs: number | undefined;
  let verbose = false;
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    if (arg === "--verbose") verbose = true;
    else if (arg === "--jobs") jobs = parseJobs(args[++index] ?? "");
    else if (arg.startsWith("--jobs=")) jobs = parseJobs(arg.slice(7));
    else denoArgs.push(arg);
  }
  if (jobs !== undefined && denoArgs.length > 0) {
    throw new Error(`Cannot use --jobs with "${denoArgs.join(" ")}"`);
  }
  return { jobs: jobs ?? chooseJobs(cores), verbose, denoArgs };
}

function parseJobs(text: string): number {
  if (/^[1-9]\d?$/.test(text)) return Number(text);
  throw new Error(`Cannot use "${text}" as --jobs: expected 1 to 99`);
}
