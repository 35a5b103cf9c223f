/**
 * Runs the tests: what `deno task test` does.
 *
 *     deno task test [--fast] [--jobs N] [--verbose]
 *     deno task test ARGUMENTS OF deno test
 *
 * As root it first installs the Debian packages that the tests need, and where
 * there is `go` it builds the newest Go plugins beside the tests, once; unless
 * `CNI_TEST_NO_INSTALL=1`. It builds the executables and tells the tests where
 * by `CNI_BIN`. All test files are run, several processes at the same time, each
 * with a file that takes long or with several others; what deno prints goes to
 * `build/test.log`, and a line for each process is shown, and what failed. `--verbose` shows the rest too. `--fast`
 * is what to run before a commit. Other arguments, paths, `--filter` and so on,
 * go to one `deno test`.
 * A file that fails because the machine ran out of threads, processes, memory,
 * disk or descriptors is run once more, alone, at the end.
 * What cannot be tested here is skipped with a reason. The last line counts.
 *
 * @module
 */

import { writeStderr } from "../base/process/stdio.ts";
import {
  canUseNetns,
  missingForNetns,
  needsUserNamespaces,
} from "../testing/capabilities.ts";
import { findColumns, Progress } from "../base/command_line/progress.ts";
import { ensureCompiled } from "./compile.ts";
import { findDenoDirectory } from "./deno_directory.ts";
import { installTestPackages } from "./debian_packages.ts";
import { startGoPrograms } from "./go_plugins.ts";
import { answerHelp } from "./help.ts";
import { ensureKernel } from "./kernel/find_kernel.ts";
import { importFlags } from "./net.ts";
import { formatTally, sumTallies, type Tally } from "./tally.ts";
import {
  type Durations,
  formatSeconds,
  readDurations,
  writeDurations,
} from "./test/durations.ts";
import { isFast, ONE_WAY } from "./test/fast.ts";
import {
  checkSources,
  checkTypes,
  checkWhole,
  type Job,
  testFiles,
  testKernel,
  type TestPlace,
  testRootless,
} from "./test/jobs.ts";
import { choosePace, parseOptions, type TestOptions } from "./test/options.ts";
import { formatFailures, judgeShard } from "./test/outcome.ts";
import { needsExecutables } from "./test/harness.ts";
import {
  listTestFiles,
  mayDownload,
  planBatches,
  selectNamed,
} from "./test/plan.ts";
import { formatRows, type KernelRows } from "./test/page.ts";
import type { TestResult } from "./test/read_output.ts";
import { runAll, type RunResult } from "./test/run_all.ts";
import { runShard } from "./test/run_shard.ts";
import { createStop } from "./test/stop.ts";
import { UsedNode } from "./test/used_node.ts";
import { listNewFiles } from "./test/new_files.ts";

const ROOT = new URL("..", import.meta.url);

/** Where everything is that deno printed. */
const LOG = "build/test.log";

/** In which ways and kernels the conformance rows were run. */
const ROWS_PAGE = "dist/conformance.md";

/** How long files took in the last whole run. */
const DURATIONS = new URL("build/durations.json", ROOT);

/**
 * Time limit of all tests, so that a hanging test ends in a report. Two idle
 * cores need a quarter of it; one busy core needs more than half.
 */
const LIMIT_MS = 45 * 60_000;

/** Whether what is for the night is run as well. */
const IS_ALL = Deno.env.get("CNI_CONFORM") === "1";

/** Whether the tests must not install or download anything. */
const NO_INSTALL = Deno.env.get("CNI_TEST_NO_INSTALL") === "1";

/**
 * Starts to build the Go programs that tests run. Test files that use
 * them wait for the end of the build, others do not.
 *
 * @returns Ends the build if it is still running
 */
async function buildGoPrograms(stop: AbortSignal): Promise<AsyncDisposable> {
  const stack = new AsyncDisposableStack();
  if (NO_INSTALL) return stack;
  const end = new AbortController();
  const signal = AbortSignal.any([stop, end.signal]);
  const { ended } = await startGoPrograms(signal, "actionlint");
  const told = ended.then((trouble) => {
    if (trouble === undefined || end.signal.aborted) return;
    console.error(`Not all Go programs, so some tests skip: ${trouble}`);
  });
  stack.defer(async () => {
    end.abort();
    await told;
  });
  return stack;
}

/**
 * Downloads what tests need, for on their node nothing can be: neither packages
 * nor what bundles.
 *
 * @param built Bundles as well: two processes that download esbuild at the same
 *   time fail
 */
async function downloadAll(
  flags: readonly string[],
  built: Promise<unknown>,
): Promise<void> {
  if (!canUseNetns) return;
  const run = async (subcommand: string, ...paths: string[]): Promise<void> => {
    await new Deno.Command(Deno.execPath(), {
      args: [subcommand, "-q", ...flags, ...paths],
      cwd: ROOT,
    }).output();
  };
  await run("cache", ...listTestFiles(ROOT).map(({ path }) => path));
  await built;
  await run("bundle", "scripts/exists.ts");
}

/** Creates what the tests see of the machine; undefined if they see itself. */
async function startNode(): Promise<UsedNode | undefined> {
  if (!canUseNetns) return undefined;
  try {
    return await UsedNode.start();
  } catch (error) {
    console.error(`The tests see the machine's own /etc: ${describe(error)}`);
    return undefined;
  }
}

/** Creates a node in a user namespace; returns a text if that cannot be: why. */
async function startRootlessNode(): Promise<UsedNode | string> {
  if (missingForNetns !== undefined) return missingForNetns;
  const needs = needsUserNamespaces();
  if (needs.ignore) return "needs user namespaces";
  const root = decodeURIComponent(ROOT.pathname);
  const paths = [root, Deno.execPath(), await findDenoDirectory()];
  try {
    return await UsedNode.startRootless(paths);
  } catch (error) {
    return describe(error);
  }
}

function explainSkips(): void {
  if (missingForNetns === undefined) return;
  const hint = Deno.uid() === 0
    ? "in a chroot, first `mount --bind DIRECTORY DIRECTORY`"
    : "run as root, or under `unshare -Urnm`";
  console.error(
    `Tests in network namespaces skip: ${missingForNetns}; ${hint}`,
  );
}

async function buildExecutables(): Promise<string | undefined> {
  try {
    return await ensureCompiled();
  } catch (error) {
    console.error(`Cannot build the executables: ${describe(error)}`);
    return undefined;
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The input of every test process. */
interface Setting {
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly place: Promise<TestPlace>;
  readonly stop: AbortSignal;
}

/** Tasks beside the tests, and a choice of tests. */
export type Scope = "fast" | "tests" | "whole";

/** Chooses what to run. */
function chooseJobs(
  scope: Scope,
  setting: Setting,
  durations: Durations,
): Job[] {
  const { flags } = setting;
  const files = listTestFiles(ROOT);
  const types = checkTypes(flags);
  if (scope === "fast") {
    const quick = files.filter(({ path }) => isFast(path, durations));
    const tests = planBatches(quick, durations)
      .map((batch) => testFiles(batch, setting));
    return [types, ...checkSources(), ...tests];
  }
  const tests = planBatches(files, durations)
    .map((batch) => testFiles(batch, setting));
  // What loads processors most, and takes long.
  const checks = scope === "whole"
    ? [testKernel(flags), types, ...checkSources(), ...checkWhole(flags)]
    : [types];
  checks.push(testRootless(files, setting, IS_ALL));
  return [...checks, ...tests];
}

/** Runs all tests, and shows at the end again what failed. */
async function runEverything(
  scope: Scope,
  { jobs, verbose }: TestOptions,
  setting: Setting,
): Promise<RunResult> {
  await Deno.mkdir(new URL("build", ROOT), { recursive: true });
  using log = await Deno.create(new URL(LOG, ROOT));
  const durations = readDurations(DURATIONS);
  const all = chooseJobs(scope, setting, durations);
  const time = scope === "fast"
    ? ""
    : `, about ${formatSeconds(durations.whole)} on an idle machine`;
  console.log(`${all.length} test processes and checks${time}`);
  const columns = findColumns(Deno.env.toObject());
  const startMs = performance.now();
  using progress = new Progress(writeStderr, columns);
  const encoder = new TextEncoder();
  const cores = navigator.hardwareConcurrency;
  const result = await runAll(all, {
    ...setting,
    root: ROOT,
    ...jobs === undefined ? choosePace(cores) : { jobs },
    durations,
    verbose,
    print: (text) => progress.print(() => console.log(text)),
    // Without a terminal, the lines of the files are progress enough.
    onProgress: columns === undefined
      ? showNowAndThen((text) => console.log(text))
      : (text) => progress.show(text),
    log: (text) => log.writeSync(encoder.encode(text)),
  });
  progress.clear();
  if (scope === "whole" && result.tally.failed === 0) {
    const whole = (performance.now() - startMs) / 1000;
    writeDurations(DURATIONS, { whole, files: result.seconds });
  }
  if (scope !== "fast") await writePage(result.rows);
  console.log(`\nAll that the tests printed is in ${LOG}`);
  if (result.failures.length === 0) return result;
  console.log(`\nWhat failed:\n\n${formatFailures(result.failures)}\n`);
  return result;
}

/** Writes which conformance rows were run, how and where. */
async function writePage(rows: readonly TestResult[]): Promise<void> {
  const kernels: KernelRows[] = [
    { kernel: `Linux ${Deno.osRelease()}`, rows },
    { kernel: "User-mode Linux", rows: await readKernelRows() },
  ];
  await Deno.mkdir(new URL("dist", ROOT), { recursive: true });
  await Deno.writeTextFile(new URL(ROWS_PAGE, ROOT), formatRows(kernels));
  console.log(`\nThe conformance rows are in ${ROWS_PAGE}`);
}

/** Reads how rows ended in the kernels of the last `deno task test:kernel`. */
async function readKernelRows(): Promise<TestResult[]> {
  const directory = new URL("build/kernel/", ROOT);
  try {
    const kernels = await Array.fromAsync(Deno.readDir(directory));
    const texts = await Promise.all(
      kernels.map(({ name }) =>
        Deno.readTextFile(new URL(`${name}/rows.json`, directory))
      ),
    );
    return texts.flatMap((text) => JSON.parse(text));
  } catch {
    return []; // It was not run, or did not come to its end.
  }
}

/** How often progress is a line of its own, in ms. */
const LINE_MS = 60_000;

/** Shows one of many texts. */
function showNowAndThen(show: (text: string) => void): (text: string) => void {
  let shownMs = performance.now();
  return (text) => {
    if (performance.now() < shownMs + LINE_MS) return;
    shownMs = performance.now();
    show(text);
  };
}

/** The counts. */
type Counted = Pick<RunResult, "tally" | "conformance">;

/** Runs what the command line asks for, as `deno test` runs and shows it. */
async function runSome(
  { denoArgs, rootless }: TestOptions,
  { flags, env, place, stop }: Setting,
): Promise<Counted> {
  const { enter, enterRootless, env: ofPlace } = await place;
  const elsewhere = denoArgs.some(mayDownload) ? [] : enter;
  const entry = rootless ? enterRootless : elsewhere;
  if (typeof entry === "string") {
    throw new Error(`Cannot run tests with --rootless: ${entry}`);
  }
  const stdout = Deno.stdout.writable.getWriter();
  const encoder = new TextEncoder();
  const end = await runShard(["test", "-A", ...flags, ...denoArgs], {
    cwd: ROOT,
    enter: entry,
    env: { ...env, ...ofPlace },
    stop,
    onText: (text) => stdout.write(encoder.encode(text)),
  });
  // Ended within a test's line, which the counts must not join.
  if (!end.output.endsWith("\n")) console.log();
  const outcome = judgeShard("deno test", end);
  if (outcome.trouble) console.log(formatFailures([outcome.trouble]));
  return outcome;
}

/** A run without any test proves nothing. */
function judge({ tally }: Counted): Tally {
  if (tally.passed + tally.failed > 0) return tally;
  console.log("No test was run");
  return { ...tally, failed: 1 };
}

/** What the tests to run need. */
interface Wanted {
  readonly scope: Scope;
  /** Whether they start executables. */
  readonly needsBin: boolean;
  /** Whether some run in a user namespace. */
  readonly needsRootless: boolean;
}

/** What tests run on, and with: made beside the checks, which need none of it. */
class Preparation implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly place: Promise<TestPlace>;
  /** Whether the executables could be built. */
  isBuilt = true;
  readonly #nodes: UsedNode[] = [];

  constructor(wanted: Wanted, flags: readonly string[], stop: AbortSignal) {
    this.place = this.#prepare(wanted, flags, stop);
    this.place.catch(() => {}); // Whoever waits for it is told.
  }

  async #prepare(
    { scope, needsBin, needsRootless }: Wanted,
    flags: readonly string[],
    stop: AbortSignal,
  ): Promise<TestPlace> {
    if (scope !== "fast") this.#stack.use(await buildGoPrograms(stop));
    const built = needsBin ? this.#build() : Promise.resolve(undefined);
    const [bin = ""] = await Promise.all([
      built,
      downloadAll(flags, built),
      installTestPackages(),
      scope === "whole" && !NO_INSTALL ? ensureKernel() : undefined,
    ]);
    explainSkips();
    const node = this.#keep(await startNode());
    const rootless = needsRootless
      ? this.#keep(await startRootlessNode())
      : "no test needs it";
    return {
      enter: node?.enter ?? [],
      enterRootless: typeof rootless === "string" ? rootless : rootless.enter,
      env: bin === "" ? {} : { CNI_BIN: bin },
    };
  }

  async #build(): Promise<string | undefined> {
    const bin = await buildExecutables();
    this.isBuilt = bin !== undefined;
    return bin;
  }

  /** Ends a node in the end. */
  #keep<Node>(node: Node): Node {
    if (node instanceof UsedNode) this.#nodes.push(this.#stack.use(node));
    return node;
  }

  /** Lists what tests have changed on the nodes. */
  listChanges(): string[] {
    return this.#nodes.flatMap((node) => node.listChanges());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.place.catch(() => {});
    await this.#stack[Symbol.asyncDispose]();
  }
}

/** Reports whether tests start executables. Those that are quick do not. */
function startExecutables(scope: Scope, args: readonly string[]): boolean {
  if (scope === "fast") return false;
  const named = selectNamed(listTestFiles(ROOT), args);
  const read = (path: string): string =>
    Deno.readTextFileSync(new URL(path, ROOT));
  return named.length === 0 ||
    named.some(({ path }) => needsExecutables(path, read));
}

/** Runs a scope, or what the command line asks for. */
async function test(scope: Scope, options: TestOptions): Promise<Tally> {
  const stop = createStop(LIMIT_MS);
  const flags = await importFlags();
  const { denoArgs, rootless } = options;
  const needsBin = startExecutables(scope, denoArgs);
  const isAll = denoArgs.length === 0 && scope !== "fast";
  const wanted = { scope, needsBin, needsRootless: rootless || isAll };
  await using preparation = new Preparation(wanted, flags, stop);
  const { place } = preparation;
  // Nothing is written to the machine's own log.
  const env = { CNI_LOG_FILE: "stderr", ...scope === "fast" ? ONE_WAY : {} };
  const setting = { flags, env, place, stop };
  // Elsewhere somebody may be at work.
  const watched = Deno.env.get("CI") ? [ROOT] : [];
  const before = new Set(watched.flatMap(listNewFiles));
  const result = denoArgs.length > 0
    ? await runSome(options, setting)
    : await runEverything(scope, options, setting);
  const { isBuilt } = preparation;
  const build = { passed: 0, failed: isBuilt ? 0 : 1, skipped: 0 };
  const changes = [
    ...preparation.listChanges().map((change) => `changed the node: ${change}`),
    ...watched.flatMap(listNewFiles).filter((path) => !before.has(path))
      .map((path) => `left a file in the checkout: ${path}`),
  ];
  for (const change of changes) console.log(`FAILED A test has ${change}`);
  console.log(`conformance rows: ${formatTally(result.conformance)}`);
  const left = { passed: 0, failed: changes.length, skipped: 0 };
  return sumTallies([build, judge(result), left]);
}

/** Runs a scope, prints the counts, and sets the exit code. */
export async function runScope(
  scope: Scope,
  options: TestOptions,
): Promise<void> {
  try {
    const tally = await test(scope, options);
    console.log(formatTally(tally));
    Deno.exitCode = tally.failed > 0 ? 1 : 0;
  } catch (error) {
    console.error(describe(error));
    Deno.exitCode = 1;
  }
}

const HELP = `Run all tests, or some with deno test.

Usage: deno task test [--fast] [--jobs N] [--verbose]
       deno task test [--rootless] [ARGUMENTS OF deno test]

  --fast       before a commit: types, lint, format, what has no executables,
               and each conformance row in one way, within 90 s
  --jobs N     test files that run at the same time (1 to 99); otherwise four,
               and more while a processor is idle
  --verbose    print everything, not only failures
  --rootless   run tests as root of a user namespace only, which is nobody on the
               machine; with paths or --filter
  --filter X   run tests with X in their name; this, paths and other arguments
               go to a single deno test

Tests that need namespaces need root. All output is in build/test.log. Debian
packages that tests need are installed unless CNI_TEST_NO_INSTALL=1.`;

if (import.meta.main) {
  answerHelp(HELP);
  const options = parseOptions(Deno.args);
  await runScope(options.fast ? "fast" : "tests", options);
}
