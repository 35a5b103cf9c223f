/**
 * The command line of `deno task test`.
 *
 * @module
 */

/** The options of the command line. */
export interface TestOptions {
  /** How many files are run at the same time; undefined for what the machine can do. */
  readonly jobs: number | undefined;
  /** Whether only what is quick is run. */
  readonly fast: boolean;
  /** Whether what passes is shown as well. */
  readonly verbose: boolean;
  /** Whether `deno test` runs as root of a user namespace only. */
  readonly rootless: boolean;
  /** Arguments for `deno test`; with any, it is the only command. */
  readonly denoArgs: readonly string[];
}

/** How many files run at the same time. */
export interface Pace {
  /** So many, however busy the processors are. */
  readonly jobs: number;
  /** So many more while a processor is idle. */
  readonly more: number;
}

/** More at a time would share disks and the kernel's locks rather than win time. */
const MOST_BUSY = 4;

/** How many files of each core may wait. */
const WAITING = 4;

/** More would fill the memory: each is a process of 150 MB, and starts others. */
const MOST_WAITING = 12;

/**
 * One file for each core and two more, within reason; and others while these
 * wait: files that work in the kernel or call executables do for most of their
 * time.
 */
export function choosePace(cores: number): Pace {
  const some = Math.max(cores, 1);
  return {
    jobs: Math.min(some + 2, MOST_BUSY),
    more: Math.min(some * WAITING, MOST_WAITING),
  };
}

/**
 * Reads the command line.
 *
 * @throws {Error} If `--jobs` has no number, or nothing to share out
 */
export function parseOptions(args: readonly string[]): TestOptions {
  const denoArgs: string[] = [];
  let jobs: number | undefined;
  let fast = false, verbose = false, rootless = false;
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    if (arg === "--verbose") verbose = true;
    else if (arg === "--fast") fast = true;
    else if (arg === "--rootless") rootless = true;
    else if (arg === "--jobs") jobs = parseJobs(args[++index] ?? "");
    else if (arg.startsWith("--jobs=")) jobs = parseJobs(arg.slice(7));
    else denoArgs.push(arg);
  }
  if (denoArgs.length > 0 && (jobs !== undefined || fast)) {
    const option = fast ? "--fast" : "--jobs";
    throw new Error(`Cannot use ${option} with "${denoArgs.join(" ")}"`);
  }
  if (denoArgs.length === 0 && rootless) {
    throw new Error("Cannot use --rootless without a path or --filter");
  }
  return { jobs, fast, verbose, rootless, denoArgs };
}

function parseJobs(text: string): number {
  if (/^[1-9]\d?$/.test(text)) return Number(text);
  throw new Error(`Cannot use "${text}" as --jobs: expected 1 to 99`);
}
