/**
 * Runs tests in User-mode Linux, a kernel as a process: what `deno task test:kernel`
 * does. Test machines' kernels may lack VLANs on bridges, ipvlan, vlan, vrf and dummy
 * links; this one has them.
 *
 * The tests see the machine's file system, and write to an overlay in memory
 * (`kernel/init.sh`). Files without an argument: all that need network namespaces,
 * shared out to two kernels.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import { hasCommand } from "../testing/capabilities.ts";
import { ensureCompiled } from "./compile.ts";
import { findDenoDirectory, ROOT, ROOT_URL, runDeno } from "./project.ts";
import { answerHelp } from "./command_line.ts";
import { boot, type BootEnd, type Kernel } from "./kernel/boot.ts";
import { ensureKernel, findKernel } from "./kernel/find_kernel.ts";
import type { InsideRun } from "./kernel/inside.ts";
import {
  filterOf,
  findObstacle,
  selectFeatureTests,
  selectKernelPart,
  shareOut,
} from "./kernel/select.ts";
import { importFlags } from "./import_flags.ts";
import { listTestFiles, type TestFile } from "./test/files.ts";
import {
  findTally,
  formatTally,
  sumTallies,
  type Tally,
} from "./test/outcome.ts";
import { createStop } from "./test/run.ts";

/** For what this run writes: a directory for each kernel. */
const DIRECTORY = `${ROOT}build/kernel`;
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
  "CNI_STRESS",
  "DENO_COVERAGE_DIR",
  "NO_COLOR",
  "OFFLINE",
];

/** The options and files on the command line. */
export interface KernelOptions {
  /** Whether only tests are run that this machine's kernel cannot run. */
  readonly core: boolean;
  /** The only files to run; empty for the whole kernel part. */
  readonly files: readonly string[];
  /** The tests of them to run, as deno takes it; undefined for all. */
  readonly filter: string | undefined;
}

/** @throws {Error} If there is something in it that we do not know */
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
  if (core && args.length > 1) {
    throw new Error("Cannot use --core with files or --filter");
  }
  return { core, files, filter };
}

/** Returns the kernel; a text if tests cannot run in it: why. */
async function chooseKernel(): Promise<Kernel | string> {
  if (Deno.uid() !== 0) return "needs root";
  if (/\s/.test(ROOT + Deno.execPath())) {
    return "needs paths without whitespace, to the project and to deno";
  }
  if (Deno.env.get("CNI_TEST_NO_INSTALL") !== "1") await ensureKernel();
  const kernel = findKernel();
  if (kernel === undefined) return "needs Debian's user-mode-linux";
  return hasCommand("modprobe") ? kernel : "needs modprobe: Debian's kmod";
}

/** What to run. */
interface Choice {
  readonly files: readonly TestFile[];
  readonly filter: string | undefined;
}

/** Chooses what the command line asks for; files that it names are run in any case. */
async function choose(options: KernelOptions): Promise<Choice> {
  const all = listTestFiles(ROOT_URL);
  const read = (path: string): string => Deno.readTextFileSync(ROOT + path);
  const { core, filter } = options;
  if (core) return await chooseLacking(selectFeatureTests(all, read));
  if (options.files.length === 0) {
    const files = selectKernelPart(all, read).filter(({ path }) => {
      const reason = findObstacle(path);
      if (reason !== undefined) console.log(`skipped ${path}: ${reason}`);
      return reason === undefined;
    });
    return { files, filter };
  }
  const files = options.files.map((path) => {
    const found = all.find((file) => file.path === path);
    if (found !== undefined) return found;
    throw new Error(`No test file is named "${path}"`);
  });
  return { files, filter };
}

/** Of rows for each version of the specification, one is enough: the kernel knows none. */
const OLD_VERSION = /, (?!1\.1\.0)\d+\.\d+\.\d+$/;

/** Chooses the tests that this machine's kernel lacks something for. */
async function chooseLacking(files: readonly TestFile[]): Promise<Choice> {
  const paths = files.map(({ path }) => path);
  const list = "scripts/kernel/list_lacking.ts";
  const flags = await importFlags();
  const { stdout } = await runDeno(["run", "-A", ...flags, list, ...paths]);
  const lacking = new Map(Object.entries<string[]>(JSON.parse(stdout)));
  const names = [...lacking.values()].flat()
    .filter((name) => !OLD_VERSION.test(name));
  // A file takes as long as it has tests that run.
  const some = files.flatMap(({ path }) => {
    const size = lacking.get(path)?.length;
    return size === undefined ? [] : [{ path, size }];
  });
  return { files: some, filter: filterOf(names) };
}

/** Does everything that needs a network or takes long in a kernel. */
async function prepare(
  { files, filter }: Choice,
  { core }: KernelOptions,
): Promise<Omit<InsideRun, "files">> {
  // Executables give no coverage.
  const built = COVERAGE_DIR === "" ? { CNI_BIN: await ensureCompiled() } : {};
  const flags = await importFlags();
  const paths = files.map(({ path }) => path);
  await runDeno(["cache", ...flags, "scripts/kernel/inside.ts", ...paths]);
  const passedOn = PASSED_ON.flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  return {
    root: ROOT_URL.href,
    flags: [...flags, ...filter === undefined ? [] : ["--filter", filter]],
    limitMs: LIMIT_MS[core ? "core" : "all"],
    env: { ...Object.fromEntries(passedOn), ...built },
  };
}

/** Boots a kernel in a directory of its own, and keeps its messages there. */
async function runInside(
  kernel: Kernel,
  run: InsideRun,
  index: number,
  onText: (text: string) => void,
): Promise<BootEnd> {
  const directory = `${DIRECTORY}/${index}`;
  await Deno.mkdir(directory, { recursive: true });
  const path = `${directory}/run.json`;
  await Deno.writeTextFile(path, JSON.stringify(run));
  return await boot({
    kernel,
    init: `${ROOT}scripts/kernel/init.sh`,
    env: {
      CNI_KERNEL_DENO: Deno.execPath(),
      CNI_KERNEL_ROOT: ROOT,
      CNI_KERNEL_RUN: path,
      CNI_KERNEL_MODULES: kernel.modules,
      CNI_KERNEL_SHARE: COVERAGE_DIR,
      DENO_DIR: findDenoDirectory(),
      DENO_NO_UPDATE_CHECK: "1",
      HOME: Deno.env.get("HOME") ?? "/root",
    },
    directory,
    processor: hasCommand("taskset") ? listProcessors()[index] : undefined,
    stop: createStop(run.limitMs + END_MS),
    onText,
  });
}

/** Runs files in kernels beside each other; those after the first are shown once they end. */
async function runShared(
  kernel: Kernel,
  choice: Choice,
  options: KernelOptions,
): Promise<BootEnd[]> {
  const run = await prepare(choice, options);
  // A kernel without any test would count as a failure.
  const isWhole = options.files.length === 0 && options.filter === undefined;
  const kernels = isWhole
    ? Math.min(MOST_KERNELS, navigator.hardwareConcurrency)
    : 1;
  const encoder = new TextEncoder();
  const show = (text: string): void =>
    void Deno.stdout.writeSync(encoder.encode(text));
  const ends = await Promise.all(
    shareOut(choice.files, kernels).map((files, index) => {
      const onText = index === 0 ? show : (): void => {};
      return runInside(kernel, { ...run, files }, index, onText);
    }),
  );
  for (const { output } of ends.slice(1)) show(output);
  return ends;
}

/**
 * Lists the processors that this process may use, from 0.
 *
 * Source: proc_pid_status(5), `Cpus_allowed_list`: as in `0-2,4`.
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
interface BootOutcome {
  readonly tally: Tally;
  /** What is wrong, or why the tests were skipped; empty if nothing is. */
  readonly message: string;
}

/** The kernel logs this when it starts the first process. */
const STARTED = /^Run \S+ as init process$/m;

/**
 * It logs this where it starts no process: on processors with more registers than
 * it knows, such as those with AMX.
 */
const CANNOT_START = /ptrace set fp regs failed, errno = 14$/m;

/** How many lines of the kernel's log tell why it ended. */
const SOME_LINES = 12;

/** Reads the outcome of a boot: a kernel that starts no process here is a skipped test. */
export function readBoot({ output, log, stopped }: BootEnd): BootOutcome {
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

async function main(options: KernelOptions): Promise<Tally> {
  const kernel = await chooseKernel();
  if (typeof kernel === "string") {
    console.log(`Skipped: the tests in User-mode Linux: ${kernel}`);
    return { passed: 0, failed: 0, skipped: 1 };
  }
  await Deno.remove(DIRECTORY, { recursive: true }).catch(() => {});
  const choice = await choose(options);
  if (choice.files.length === 0) {
    console.log("This machine's kernel can run every test");
    return sumTallies([]);
  }
  const outcomes = (await runShared(kernel, choice, options)).map(readBoot);
  for (const { message } of outcomes) {
    if (message !== "") console.log(message);
  }
  return sumTallies(outcomes.map(({ tally }) => tally));
}

const HELP = `Run the kernel part of the tests in User-mode Linux.
Usage: deno task test:kernel [--filter TEXT] [FILE...]
       deno task test:kernel --core
  --core         run only the tests that this machine's kernel cannot run, as the
                 gate does
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
