/**
 * Runs the kernel part of the tests in a kernel that has everything: what
 * `deno task test:kernel` does.
 *
 *     deno task test:kernel [--core] [--filter TEXT] [FILE...]
 *
 * The kernel is User-mode Linux, Debian's package `user-mode-linux`: it runs as
 * a process, and has modules for VLANs, ipvlan, vrf and the like, which the
 * machine's kernel may lack. As root this first fetches the package, unless
 * `CNI_TEST_NO_INSTALL=1`. `--core` runs the part that the gate runs. Files that
 * are named are run even if they are not in the kernel part.
 *
 * Where there are two processors, two kernels share the files: each has one.
 * The kernel has the machine's file system, and writes to memory only. It has no
 * network to the outside, so everything is downloaded and built before.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import { hasCommand } from "../testing/capabilities.ts";
import { ensureCompiled } from "./compile.ts";
import { findDenoDirectory } from "./setup/deno_directory.ts";
import { answerHelp } from "./help.ts";
import { boot, type BootEnd, type Kernel } from "./kernel/boot.ts";
import { ensureKernel, findKernel } from "./kernel/find_kernel.ts";
import type { InsideRun } from "./kernel/inside.ts";
import {
  CORE_FILTER,
  findObstacle,
  isCore,
  selectKernelPart,
  shareOut,
} from "./kernel/select.ts";
import { importFlags } from "./net.ts";
import { listTestFiles, type TestFile } from "./test/files.ts";
import {
  findTally,
  formatTally,
  sumTallies,
  type Tally,
} from "./test/outcome.ts";
import { createStop } from "./test/run.ts";

const ROOT = new URL("..", import.meta.url);
const ROOT_PATH = decodeURIComponent(ROOT.pathname);

/** For what this run writes: a directory for each kernel. */
const DIRECTORY = "build/kernel";

/** More would share the memory rather than win time. */
const MOST_KERNELS = 2;

/** Time limits of the tests, and of the kernel's boot and end. */
const LIMIT_MS = { core: 30 * 60_000, all: 180 * 60_000 } as const;
const END_MS = 60_000;

/** A directory of the machine for what the tests record, if not empty. */
const COVERAGE_DIR = Deno.env.get("DENO_COVERAGE_DIR") ?? "";

/** These say where executables are and what tests do; PATH is the script's. */
const PASSED_ON = [
  "CNI_GO_PLUGINS",
  "DENO_COVERAGE_DIR",
  "NO_COLOR",
  "OFFLINE",
];

/** The options and files on the command line. */
export interface KernelOptions {
  /** Whether only the part is run that the gate runs. */
  readonly core: boolean;
  /** The only files to run; empty for the whole kernel part. */
  readonly files: readonly string[];
  /** The tests of them to run, as deno takes it; undefined for all. */
  readonly filter: string | undefined;
}

/**
 * Reads the command line.
 *
 * @throws {Error} If there is an option that is not known, or `--filter` has no text
 */
export function parseKernelOptions(args: readonly string[]): KernelOptions {
  const files: string[] = [];
  let core = false;
  let filter: string | undefined;
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    if (arg === "--core") core = true;
    else if (arg === "--filter") filter = args[++index] ?? "";
    else if (arg.startsWith("--filter=")) filter = arg.slice(9);
    else if (arg.startsWith("-")) throw new Error(`Cannot use "${arg}"`);
    else files.push(arg.replace(/^\.\//, ""));
  }
  if (filter === "") throw new Error("Cannot use --filter without a text");
  if (core && files.length > 0) {
    throw new Error(`Cannot use --core with "${files.join(" ")}"`);
  }
  return { core, files, filter };
}

/**
 * Returns the kernel to boot.
 *
 * @returns A text if none can be booted here: why
 */
async function chooseKernel(): Promise<Kernel | string> {
  if (Deno.uid() !== 0) return "needs root";
  if (/\s/.test(ROOT_PATH + Deno.execPath())) {
    return "needs paths without whitespace, to the project and to deno";
  }
  if (Deno.env.get("CNI_TEST_NO_INSTALL") !== "1") await ensureKernel();
  const kernel = findKernel();
  if (kernel === undefined) return "needs Debian's user-mode-linux";
  return hasCommand("modprobe") ? kernel : "needs modprobe: Debian's kmod";
}

/** The files to run, and those that cannot be run with the reasons. */
interface Choice {
  readonly files: readonly TestFile[];
  readonly left: readonly (readonly [path: string, reason: string])[];
}

/** Chooses what the command line asks for; what it names is run in any case. */
function chooseFiles({ files, core }: KernelOptions): Choice {
  const all = listTestFiles(ROOT);
  if (files.length > 0) {
    return { files: files.map((path) => findFile(all, path)), left: [] };
  }
  const read = (path: string): string =>
    Deno.readTextFileSync(new URL(path, ROOT));
  const part = selectKernelPart(all, read)
    .filter(({ path }) => !core || isCore(path));
  const isPossible = ({ path }: TestFile): boolean =>
    findObstacle(path) === undefined;
  return {
    files: part.filter(isPossible),
    left: part.flatMap(({ path }) => {
      const reason = findObstacle(path);
      return reason === undefined ? [] : [[path, reason] as const];
    }),
  };
}

function findFile(all: readonly TestFile[], path: string): TestFile {
  const found = all.find((file) => file.path === path);
  if (found !== undefined) return found;
  throw new Error(`No test file is named "${path}"`);
}

/** Does everything that needs a network or takes long in a kernel. */
async function prepare(
  files: readonly TestFile[],
  { filter, core }: KernelOptions,
): Promise<Omit<InsideRun, "files">> {
  // Executables give no coverage.
  const built = COVERAGE_DIR === "" ? { CNI_BIN: await ensureCompiled() } : {};
  const flags = await importFlags();
  const paths = files.map(({ path }) => path);
  await runDeno(["cache", ...flags, "scripts/kernel/inside.ts", ...paths]);
  const wanted = filter ?? (core ? CORE_FILTER : undefined);
  const passedOn = PASSED_ON.flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  return {
    root: ROOT.href,
    flags: [
      ...flags,
      ...wanted === undefined ? [] : ["--filter", wanted],
    ],
    limitMs: LIMIT_MS[core ? "core" : "all"],
    env: { ...Object.fromEntries(passedOn), ...built },
  };
}

async function runDeno(args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: ROOT,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** A kernel beside others, from 0. */
interface Seat {
  readonly index: number;
  /** See {@linkcode boot}. */
  readonly processor: number | undefined;
}

/** Boots a kernel in a directory of its own, and keeps its messages there. */
async function runInside(
  kernel: Kernel,
  run: InsideRun,
  { index, processor }: Seat,
  onText: (text: string) => void,
): Promise<BootEnd> {
  const directory = `${ROOT_PATH}${DIRECTORY}/${index}`;
  await Deno.mkdir(directory, { recursive: true });
  const path = `${directory}/run.json`;
  await Deno.writeTextFile(path, JSON.stringify(run));
  return await boot({
    kernel,
    init: `${ROOT_PATH}scripts/kernel/init.sh`,
    env: {
      CNI_KERNEL_DENO: Deno.execPath(),
      CNI_KERNEL_ROOT: ROOT_PATH,
      CNI_KERNEL_RUN: path,
      CNI_KERNEL_MODULES: kernel.modules,
      CNI_KERNEL_SHARE: COVERAGE_DIR,
      DENO_DIR: await findDenoDirectory(),
      DENO_NO_UPDATE_CHECK: "1",
      HOME: Deno.env.get("HOME") ?? "/root",
    },
    directory,
    processor,
    stop: createStop(run.limitMs + END_MS),
    onText,
  });
}

/** Runs files in kernels beside each other; those after the first are shown once they end. */
async function runShared(
  kernel: Kernel,
  files: readonly TestFile[],
  options: KernelOptions,
): Promise<BootEnd[]> {
  const run = await prepare(files, options);
  // A kernel without any test would count as a failure.
  const isWhole = options.files.length === 0 && options.filter === undefined;
  const kernels = isWhole
    ? Math.min(MOST_KERNELS, navigator.hardwareConcurrency)
    : 1;
  const parts = shareOut(files, kernels);
  const encoder = new TextEncoder();
  const show = (text: string): void =>
    void Deno.stdout.writeSync(encoder.encode(text));
  const processors = hasCommand("taskset") ? listProcessors() : [];
  const ends = await Promise.all(parts.map((files, index) =>
    runInside(
      kernel,
      { ...run, files },
      { index, processor: processors[index] },
      index === 0 ? show : () => {},
    )
  ));
  for (const { output } of ends.slice(1)) show(output);
  return ends;
}

/**
 * Lists the processors that this process may use, from 0.
 *
 * Source: man7.org/linux/man-pages/man5/proc_pid_status.5.html
 * `Cpus_allowed_list`; the format, such as `0-2,7`, is that of cpuset(7).
 */
export function listProcessors(): number[] {
  const status = Deno.readTextFileSync("/proc/self/status");
  const [, list = ""] = /^Cpus_allowed_list:\t(.+)$/m.exec(status) ?? [];
  return list.split(",").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    const length = last - first + 1;
    return Array.from({ length }, (_, index) => first + index);
  });
}

/** The counts of a boot, and an explanation. */
export interface BootVerdict {
  readonly tally: Tally;
  /** What is wrong, or why the tests were skipped; empty if nothing is. */
  readonly message: string;
}

/** The kernel logs this when it starts the first process. */
const STARTED = /^Run \S+ as init process$/m;

/**
 * Linux before 6.13 logs this on a processor with AMX: a process has more
 * registers than the kernel has room for, so that none can begin.
 */
const CANNOT_START = /ptrace set fp regs failed, errno = 14$/m;

/** How many lines of the kernel's log tell why it ended. */
const SOME_LINES = 12;

/**
 * Judges a boot. Where the kernel does not even start, as in a container that
 * forbids ptrace(2), or cannot start any process, the tests are skipped; every
 * later end without a count of the tests is a failure. So is a run without any
 * test, which proves nothing.
 */
export function judgeBoot({ output, log, stopped }: BootEnd): BootVerdict {
  const tally = findTally(output);
  if (tally !== undefined && stopped === undefined) {
    if (tally.passed + tally.failed > 0) return { tally, message: "" };
    return { tally: { ...tally, failed: 1 }, message: "No test was run" };
  }
  const tail = log.trimEnd().split("\n").slice(-SOME_LINES).join("\n");
  const hasStarted = output !== "" ||
    STARTED.test(log) && !CANNOT_START.test(log);
  if (!hasStarted && stopped === undefined) {
    return {
      tally: { passed: 0, failed: 0, skipped: 1 },
      message: `Skipped: User-mode Linux does not boot here:\n${tail}`,
    };
  }
  const why = stopped ?? "it ended before the tests did";
  const counted = tally ?? sumTallies([]);
  return {
    tally: { ...counted, failed: counted.failed + 1 },
    message: `FAILED: the kernel: ${why}. It logged last:\n${tail}`,
  };
}

function skip(reason: string): Tally {
  console.log(`Skipped: the tests in User-mode Linux: ${reason}`);
  return { passed: 0, failed: 0, skipped: 1 };
}

async function main(options: KernelOptions): Promise<Tally> {
  const kernel = await chooseKernel();
  if (typeof kernel === "string") return skip(kernel);
  await Deno.remove(new URL(DIRECTORY, ROOT), { recursive: true }).catch(
    () => {},
  );
  const { files, left } = chooseFiles(options);
  for (const [path, reason] of left) {
    console.log(`skipped ${path}: ${reason}`);
  }
  const verdicts = (await runShared(kernel, files, options)).map(judgeBoot);
  for (const { message } of verdicts) {
    if (message !== "") console.log(message);
  }
  const tally = sumTallies(verdicts.map(({ tally }) => tally));
  return { ...tally, skipped: tally.skipped + left.length };
}

const HELP = `Run the kernel part of the tests in User-mode Linux.

Usage: deno task test:kernel [--core] [--filter TEXT] [FILE...]

  --core         run only the part that the gate runs
  --filter TEXT  run tests with TEXT in their name

User-mode Linux of Debian is fetched to build/uml unless CNI_TEST_NO_INSTALL=1.`;

if (import.meta.main) {
  answerHelp(HELP);
  try {
    const tally = await main(parseKernelOptions(Deno.args));
    console.log(formatTally(tally));
    Deno.exitCode = tally.failed > 0 ? 1 : 0;
  } catch (error) {
    console.error(describeError(error));
    Deno.exitCode = 1;
  }
}
