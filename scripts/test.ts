/**
 * Runs the tests: what `deno task test` does, and `deno task ok` with `--whole`.
 *
 * As root it first installs the Debian packages that the tests need, and where
 * there is `go` it builds the newest Go plugins beside the tests, once; unless
 * `CNI_TEST_NO_INSTALL=1`. It builds the executables and tells the tests where
 * by `CNI_BIN`. All test files are run, several processes at the same time, each
 * with a file that takes long or with several others. What deno prints goes to
 * `build/test.log`; a line for each process is shown, and what failed. Paths,
 * `--filter` and so on go to one `deno test`, which shows what it does. What
 * cannot be tested here is skipped with a reason. The last line counts.
 *
 * @module
 */

import project from "../deno.json" with { type: "json" };
import { findColumns, Progress } from "../base/command_line/progress.ts";
import { describeError } from "../base/error.ts";
import { writeStderr } from "../base/process/stdio.ts";
import { answerHelp } from "./command_line.ts";
import { importFlags } from "./import_flags.ts";
import {
  isFast,
  listTestFiles,
  mayDownload,
  needsExecutables,
  planBatches,
  selectNamed,
  type TestFile,
} from "./test/files.ts";
import {
  formatTally,
  readOutcome,
  sumTallies,
  type Tally,
} from "./test/outcome.ts";
import { Preparation } from "./test/prepare.ts";
import {
  createStop,
  type Job,
  runAll,
  runProcess,
  type RunResult,
  testFiles,
  type TestPlace,
} from "./test/run.ts";

const ROOT = new URL("..", import.meta.url);

/** Where everything is that deno printed. */
const LOG = "build/test.log";

/**
 * Time limit of all tests, so that a hanging test ends in a report. Two idle
 * cores need a quarter of it; one busy core needs more than half.
 */
const LIMIT_MS = 45 * 60_000;

const HELP = `Run all tests, or some with deno test.

Usage: deno task test [--fast] [--jobs N]
       deno task test [--rootless] [ARGUMENTS OF deno test]

  --fast       before a commit: types, lint, format, what has no executables,
               and each conformance row in one way, within 90 s
  --jobs N     processes that run at the same time (1 to 99); otherwise four for
               each processor, at most 12
  --rootless   run tests as root of a user namespace only, which is nobody on the
               machine; with paths or --filter
  --filter X   run tests with X in their name; this, paths and other arguments
               go to a single deno test

Tests that need namespaces need root. All output is in build/test.log. Debian
packages that tests need are installed unless CNI_TEST_NO_INSTALL=1.`;

const HELP_OK = `Run the whole gate: format, lint, types, docs and tests.

Usage: deno task ok [--jobs N]

It is deno task test, which explains --jobs, with more checks and a part of the
tests in another kernel. It takes about 10 minutes on two cores, and needs root
for most tests.`;

/** The options of the command line. */
export interface TestOptions {
  /** Which tests are run, with which checks beside them. */
  readonly scope: "fast" | "tests" | "whole";
  /** How many processes run at the same time; undefined for what the machine can do. */
  readonly jobs: number | undefined;
  /** Whether `deno test` runs as root of a user namespace only. */
  readonly rootless: boolean;
  /** Arguments for `deno test`; with any, it is the only command. */
  readonly denoArgs: readonly string[];
}

/**
 * Reads the command line.
 *
 * @throws {Error} If `--jobs` has no number, or nothing to share out
 */
export function parseOptions(args: readonly string[]): TestOptions {
  const denoArgs: string[] = [];
  let jobs: string | undefined;
  let scope: TestOptions["scope"] = "tests", rootless = false;
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    if (arg === "--fast") scope = "fast";
    else if (arg === "--whole") scope = "whole";
    else if (arg === "--rootless") rootless = true;
    else if (arg === "--jobs") jobs = args[++index] ?? "";
    else if (arg.startsWith("--jobs=")) jobs = arg.slice(7);
    else denoArgs.push(arg);
  }
  if (jobs !== undefined && !/^[1-9]\d?$/.test(jobs)) {
    throw new Error(`Cannot use "${jobs}" as --jobs: expected 1 to 99`);
  }
  if (denoArgs.length > 0 && (jobs !== undefined || scope !== "tests")) {
    const option = scope === "tests" ? "--jobs" : `--${scope}`;
    throw new Error(`Cannot use ${option} with "${denoArgs.join(" ")}"`);
  }
  if (denoArgs.length === 0 && rootless) {
    throw new Error("Cannot use --rootless without a path or --filter");
  }
  return {
    scope,
    jobs: jobs === undefined ? undefined : Number(jobs),
    rootless,
    denoArgs,
  };
}

/** The surroundings of every test process. */
interface Setting {
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly place: Promise<TestPlace>;
  readonly stop: AbortSignal;
}

/** Chooses what to run: first what needs no preparation, then what takes longest. */
function chooseJobs(
  scope: TestOptions["scope"],
  flags: readonly string[],
): Job[] {
  const files = listTestFiles(ROOT);
  const types = check("types", "check", "-q", ...flags, ".");
  const sources = [
    check("lint", "lint", "-q"),
    check("format", "fmt", "-q", "--check"),
  ];
  const quick = scope === "fast"
    ? files.filter(({ path }) => isFast(path))
    : files;
  const tests = planBatches(quick).map((batch) => testFiles(batch, flags));
  if (scope === "fast") return [types, ...sources, ...tests];
  const rootless = testRootless(files, flags);
  if (scope === "tests") return [types, rootless, ...tests];
  const run = ["run", "-A", ...flags];
  const kernel: Job = {
    name: "tests in User-mode Linux",
    args: [...run, "scripts/test_kernel.ts", "--core"],
    kind: "counting",
    needs: "executables",
  };
  return [
    types,
    ...sources,
    check("import cycles", ...run, "scripts/import_cycles.ts"),
    check("docs", "doc", "--lint", ...flags, ...Object.values(project.exports)),
    kernel,
    rootless,
    ...tests,
  ];
}

function check(name: string, ...args: readonly string[]): Job {
  return { name, args, kind: "command" };
}

/** Whether what is for the night is run as well. */
const IS_ALL = Deno.env.get("CNI_CONFORM") === "1";

/** Rows of plugins that ask the kernel for more than a file. */
const ROOTLESS =
  /^tests\/(?:masquerade_hosts|conformance\/(?:bridge|dummy|firewall|flannel|ipvlan|loopback|macvlan|masquerade|portmap|portmap_iptables|ptp|sbr|tap|tuning|vlan|vrf))_test\.ts$/;

/** Rows for the newest version of the specification, and rules by the legacy iptables. */
const ROOTLESS_FILTER = String
  .raw`/^conformance .*(?:, 1\.1\.0|[^.].|.[^0-9])$|with iptables-legacy and nobody/`;

/** Returns the job that runs tests where root is nobody on the machine: some rows, or all. */
function testRootless(
  files: readonly TestFile[],
  flags: readonly string[],
): Job {
  const filter = IS_ALL ? [] : [`--filter=${ROOTLESS_FILTER}`];
  const paths = files.map(({ path }) => path).filter((path) =>
    ROOTLESS.test(path) || IS_ALL && path.startsWith("tests/conformance/")
  );
  const batch = { name: "tests in a user namespace", paths };
  return { ...testFiles(batch, [...flags, ...filter]), needs: "rootless node" };
}

/** Runs all tests, and shows at the end again what failed. */
async function runEverything(
  { scope, jobs }: TestOptions,
  setting: Setting,
): Promise<Pick<RunResult, "tally">> {
  await Deno.mkdir(new URL("build", ROOT), { recursive: true });
  using log = await Deno.create(new URL(LOG, ROOT));
  const all = chooseJobs(scope, setting.flags);
  console.log(`${all.length} test processes and checks`);
  const columns = findColumns(Deno.env.toObject());
  using progress = new Progress(writeStderr, columns);
  const encoder = new TextEncoder();
  const result = await runAll(all, {
    ...setting,
    root: ROOT,
    jobs,
    print: (text) => progress.print(() => console.log(text)),
    // Without a terminal, the lines of the processes are progress enough.
    onProgress: columns === undefined
      ? () => {}
      : (text) => progress.show(text),
    log: (text) => log.writeSync(encoder.encode(text)),
  });
  progress.clear();
  console.log(`\nAll that the tests printed is in ${LOG}`);
  if (result.failures.length > 0) {
    console.log(`\nWhat failed:\n\n${result.failures.join("\n")}\n`);
  }
  return result;
}

/** Runs what the command line asks for, as `deno test` runs and shows it. */
async function runSome(
  { denoArgs, rootless }: TestOptions,
  { flags, env, place, stop }: Setting,
): Promise<Pick<RunResult, "tally">> {
  const { enter, enterRootless, env: ofPlace } = await place;
  const elsewhere = denoArgs.some(mayDownload) ? [] : enter;
  const entry = rootless ? enterRootless : elsewhere;
  if (typeof entry === "string") {
    throw new Error(`Cannot run tests with --rootless: ${entry}`);
  }
  const stdout = Deno.stdout.writable.getWriter();
  const encoder = new TextEncoder();
  const args = ["test", "-A", "--junit-path=-", ...flags, ...denoArgs];
  let isReport = false;
  const end = await runProcess([Deno.execPath(), ...args], {
    cwd: decodeURIComponent(ROOT.pathname),
    enter: entry,
    env: { ...env, ...ofPlace },
    stop,
    onText: async (text) => {
      const [shown = ""] = isReport ? [] : text.split(/^<\?xml /m);
      isReport ||= shown !== text;
      await stdout.write(encoder.encode(shown));
    },
  });
  const outcome = readOutcome("deno test", "tests", end);
  for (const failure of outcome.failures) console.log(failure);
  return outcome;
}

/** Reports whether some files start executables. */
function startExecutables(paths: readonly string[]): boolean {
  const read = (path: string): string =>
    Deno.readTextFileSync(new URL(path, ROOT));
  return paths.some((path) => needsExecutables(path, read));
}

/** Lists changed and new files in the checkout that are not ignored; none without git. */
function listChangedFiles(): string[] {
  const args = ["-c", "safe.directory=*", "status", "--porcelain", "-z"];
  try {
    const { stdout } = new Deno.Command("git", {
      args: [...args, "--untracked-files=all"],
      cwd: ROOT,
    }).outputSync();
    return new TextDecoder().decode(stdout).split("\0").filter(Boolean);
  } catch {
    return [];
  }
}

/** Runs a scope, or what the command line asks for. */
async function test(options: TestOptions): Promise<Tally> {
  const stop = createStop(LIMIT_MS);
  const flags = await importFlags();
  const { scope, denoArgs, rootless } = options;
  const isSome = denoArgs.length > 0, isFast = scope === "fast";
  const all = listTestFiles(ROOT);
  const named = selectNamed(all, denoArgs);
  const paths = (named.length > 0 ? named : all).map(({ path }) => path);
  await using preparation = new Preparation({
    ...{ flags, paths },
    // Quick tests do without.
    bin: !isFast && startExecutables(paths),
    go: !isFast,
    kernel: scope === "whole",
    rootless: rootless || !isSome && !isFast,
  }, stop);
  const { place } = preparation;
  const env = {
    // Nothing is written to the machine's own log.
    CNI_LOG_FILE: "stderr",
    // Conformance rows run in one way only.
    ...isFast ? { CNI_TEST_ONE_WAY: "1" } : {},
  };
  const setting = { flags, env, place, stop };
  // Elsewhere somebody may be at work.
  const isWatched = Boolean(Deno.env.get("CI"));
  const before = isWatched ? listChangedFiles() : [];
  const { tally } = isSome
    ? await runSome(options, setting)
    : await runEverything(options, setting);
  const after = isWatched ? listChangedFiles() : [];
  const faults = [
    ...preparation.isBuilt ? [] : ["The executables could not be built"],
    // A run without any test proves nothing.
    ...tally.passed + tally.failed > 0 ? [] : ["No test was run"],
    ...preparation.listChanges()
      .map((change) => `A test has changed the node: ${change}`),
    ...after.filter((path) => !before.includes(path))
      .map((path) => `A test has changed the checkout: ${path}`),
  ];
  for (const fault of faults) console.log(`FAILED ${fault}`);
  return sumTallies([tally, { passed: 0, failed: faults.length, skipped: 0 }]);
}

if (import.meta.main) {
  answerHelp(Deno.args.includes("--whole") ? HELP_OK : HELP);
  try {
    const tally = await test(parseOptions(Deno.args));
    console.log(formatTally(tally));
    Deno.exitCode = tally.failed > 0 ? 1 : 0;
  } catch (error) {
    console.error(describeError(error));
    Deno.exitCode = 1;
  }
}
