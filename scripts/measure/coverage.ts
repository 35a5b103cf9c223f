// deno-lint-ignore-file no-console -- its output is what it is for

/**
 * Measures which lines of the product the tests run: `deno task coverage`.
 *
 * Counts what runs in the processes of the tests and in children started from
 * source. An executable compiled ahead gives no coverage, so tests that need
 * them skip. A file that no test imports counts with 0 lines covered.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import { describeError } from "../../base/error.ts";
import { ROOT } from "../compile/project.ts";
import {
  type FileLines,
  formatLines,
  formatRanges,
  parseLcov,
  percent,
  sumLines,
} from "./coverage/report.ts";
import { installTestPackages } from "../setup/debian_packages.ts";
import { answerHelp } from "../help.ts";
import { isTest } from "../lint/project_files.ts";
import { importFlags } from "../net.ts";
import { listFiles, listTestFiles, planBatches } from "../test/files.ts";
import { formatTally } from "../test/outcome.ts";
import { createStop, runAll, testFiles } from "../test/run.ts";

const HELP = `Measure which lines of the product the tests run.

Usage: deno task coverage [--html] [--no-kernel] [--below PERCENT]

  --html           write pages to build/coverage/html as well
  --no-kernel      leave out the tests in User-mode Linux
  --below PERCENT  list files below this, with the missed lines (default 90)

Writes build/coverage/lcov.info. Exits with 1 if a directory is below 90 %.`;

/** Directories that are measured. */
const DIRECTORIES = ["cni", "ipam", "net", "ffi/netlink", "plugins"];

/** At least so many lines of each directory are covered, in percent. */
const THRESHOLD = 90;

const ROOT_URL = new URL("../..", import.meta.url);
const OUTPUT = `${ROOT}build/coverage/`;
const RAW = `${OUTPUT}raw`;

/** A report and its subject. */
const REPORT_FILTER = [
  `--include=^${ROOT_URL.href}(${DIRECTORIES.join("|")})/`,
  "--exclude=(_test\\.ts$|/testing(\\.ts$|/))",
  RAW,
];

/** Tests of features that the machine's kernel may lack: VLANs, ipvlan, vrf, dummy. */
const KERNEL_TESTS =
  /^(?:plugins|tests\/conformance|ffi\/rtnl)\/.*(?:vlan|vrf|dummy)[^/]*$|^plugins\/(?:vlan|ipvlan|vrf|dummy)\//;

/** Time limit of all tests. */
const LIMIT_MS = 60 * 60_000;

interface Options {
  readonly html: boolean;
  readonly kernel: boolean;
  readonly below: number;
}

/** @throws {Error} If an argument is unknown or not a number */
function readOptions(args: readonly string[]): Options {
  const { html, below = String(THRESHOLD), ...others } = parseArgs([...args], {
    boolean: ["html", "no-kernel"],
    string: ["below"],
    unknown: (arg) => {
      throw new Error(
        `Cannot understand "${arg}"; see deno task coverage --help`,
      );
    },
  });
  if (!/^\d{1,3}$/.test(below)) throw new Error(`Cannot use "${below}" %`);
  return { html, kernel: !others["no-kernel"], below: Number(below) };
}

/** Lists the product's files. */
function listSources(): string[] {
  return DIRECTORIES.flatMap((directory) =>
    listFiles(ROOT_URL, `${directory}/`)
  )
    .map(({ path }) => path)
    .filter((path) => path.endsWith(".ts") && !isTest(path));
}

/** Runs deno without output, unless it fails. */
async function runDeno(args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: ROOT,
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** Records a file as loaded and never run. */
async function recordUntested(url: string, index: number): Promise<void> {
  const range = { startOffset: 0, endOffset: 1 << 30, count: 0 };
  const functions = [
    { functionName: "", ranges: [range], isBlockCoverage: true },
  ];
  await Deno.writeTextFile(
    `${RAW}/untested-${index}.json`,
    JSON.stringify({ scriptId: "0", url, functions }),
  );
}

/** Writes the report, and reads it. A file without code has no lines. */
async function readReport(): Promise<FileLines[]> {
  const lcov = `${OUTPUT}lcov.info`;
  await runDeno(["coverage", "--lcov", `--output=${lcov}`, ...REPORT_FILTER]);
  return parseLcov(await Deno.readTextFile(lcov), ROOT);
}

async function runTests(env: Record<string, string>): Promise<void> {
  const files = listTestFiles(ROOT_URL).filter(({ path }) =>
    !path.startsWith("scripts/")
  );
  const flags = await importFlags();
  const jobs = planBatches(files).map((batch) => testFiles(batch, flags));
  const { tally, failures } = await runAll(jobs, {
    root: ROOT_URL,
    env,
    stop: createStop(LIMIT_MS),
    print: (text) => console.log(text),
    log: () => {},
  });
  if (failures.length > 0) console.log(`\n${failures.join("\n")}`);
  console.log(formatTally(tally));
}

/** Runs tests in User-mode Linux, which writes to the same directory. */
async function runKernelTests(env: Record<string, string>): Promise<void> {
  const files = listTestFiles(ROOT_URL)
    .map(({ path }) => path).filter((path) => KERNEL_TESTS.test(path));
  await new Deno.Command(Deno.execPath(), {
    args: ["task", "test:kernel", ...files],
    cwd: ROOT,
    env,
  }).spawn().status;
}

async function main({ html, kernel, below }: Options): Promise<number> {
  await installTestPackages();
  await Deno.remove(OUTPUT, { recursive: true }).catch(() => {});
  await Deno.mkdir(RAW, { recursive: true });
  // As for all tests, nothing is written to the machine's own log.
  const env = { DENO_COVERAGE_DIR: RAW, CNI_LOG_FILE: "stderr" };
  Deno.env.delete("CNI_BIN");
  await runTests(env);
  if (kernel) await runKernelTests(env);
  const tested = new Set((await readReport()).map(({ path }) => path));
  const untested = listSources().filter((path) => !tested.has(path))
    .map((path) => new URL(path, ROOT_URL).href);
  if (untested.length > 0) {
    await runDeno(["cache", ...await importFlags(), ...untested]);
    await Promise.all(untested.map(recordUntested));
  }
  const files = await readReport();
  if (html) {
    await runDeno(["coverage", "--html", ...REPORT_FILTER]);
    await Deno.rename(`${RAW}/html`, `${OUTPUT}html`);
  }
  return printReport(files, below);
}

/** @returns The exit status */
function printReport(files: readonly FileLines[], below: number): number {
  const low = files.filter((file) => percent(file) < below)
    .toSorted((a, b) => percent(a) - percent(b));
  if (low.length > 0) console.log(`\nFiles below ${below} %:\n`);
  for (const file of low) {
    console.log(
      `${formatLines(file.path, file)}: ${formatRanges(file.missed)}`,
    );
  }
  console.log("");
  const lines = DIRECTORIES.map((directory) => sumLines(files, directory));
  lines.forEach((one, index) =>
    console.log(formatLines(DIRECTORIES[index] ?? "", one))
  );
  if (lines.every((one) => percent(one) >= THRESHOLD)) return 0;
  console.log(`\nAt least ${THRESHOLD} % of each directory is expected`);
  return 1;
}

if (import.meta.main) {
  answerHelp(HELP);
  try {
    Deno.exitCode = await main(readOptions(Deno.args));
  } catch (error) {
    console.error(describeError(error));
    Deno.exitCode = 1;
  }
}
