/**
 * Runs the kernel part of the tests in a kernel that has everything: what
 * `deno task test:kernel` does.
 *
 *     deno task test:kernel [--core] [--filter TEXT] [--verbose] [FILE...]
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

import { hasCommand } from "../testing/capabilities.ts";
import { ensureCompiled } from "./compile.ts";
import { findDenoDirectory } from "./deno_directory.ts";
import { boot, type BootEnd, type Kernel } from "./kernel/boot.ts";
import { ensureKernel, findKernel } from "./kernel/find_kernel.ts";
import type { InsideRun } from "./kernel/inside.ts";
import { judgeBoot } from "./kernel/judge.ts";
import { type KernelOptions, parseKernelOptions } from "./kernel/options.ts";
import { listProcessors } from "./kernel/processors.ts";
import {
  findObstacle,
  isCore,
  selectKernelPart,
  shareOut,
} from "./kernel/select.ts";
import { answerHelp } from "./help.ts";
import { importFlags } from "./net.ts";
import { formatTally, sumTallies, type Tally } from "./tally.ts";
import { listTestFiles, type TestFile } from "./test/plan.ts";
import { createStop } from "./test/stop.ts";

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
  { testArgs, verbose, core }: KernelOptions,
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
    root: ROOT.href,
    flags,
    testArgs,
    verbose,
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
  const directory = `${ROOT_PATH}${DIRECTORY}/${index}/`;
  await Deno.mkdir(directory, { recursive: true });
  await Deno.writeTextFile(`${directory}run.json`, JSON.stringify(run));
  const end = await boot({
    kernel,
    init: `${ROOT_PATH}scripts/kernel/init.sh`,
    env: {
      CNI_KERNEL_DENO: Deno.execPath(),
      CNI_KERNEL_ROOT: ROOT_PATH,
      CNI_KERNEL_RUN: `${directory}run.json`,
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
  await Deno.writeTextFile(`${directory}kernel.log`, end.log);
  return end;
}

/** Runs files in kernels beside each other; those after the first are shown once they end. */
async function runShared(
  kernel: Kernel,
  files: readonly TestFile[],
  options: KernelOptions,
): Promise<BootEnd[]> {
  const run = await prepare(files, options);
  // A kernel without any test would count as a failure.
  const processors = listProcessors();
  const kernels = options.isWhole
    ? Math.min(MOST_KERNELS, navigator.hardwareConcurrency)
    : 1;
  const parts = shareOut(files, kernels);
  const encoder = new TextEncoder();
  const show = (text: string): void =>
    void Deno.stdout.writeSync(encoder.encode(text));
  const canPin = hasCommand("taskset");
  const ends = await Promise.all(parts.map((files, index) =>
    runInside(
      kernel,
      { ...run, files },
      { index, processor: canPin ? processors[index] : undefined },
      index === 0 ? show : () => {},
    )
  ));
  for (const { output } of ends.slice(1)) show(output);
  return ends;
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

Usage: deno task test:kernel [--core] [--filter TEXT] [--verbose] [FILE...]

  --core         run only the part that the gate runs
  --filter TEXT  run tests with TEXT in their name
  --verbose      print everything, not only failures

User-mode Linux of Debian is fetched to build/uml unless CNI_TEST_NO_INSTALL=1.`;

if (import.meta.main) {
  answerHelp(HELP);
  try {
    const tally = await main(parseKernelOptions(Deno.args));
    console.log(formatTally(tally));
    Deno.exitCode = tally.failed > 0 ? 1 : 0;
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    Deno.exitCode = 1;
  }
}
