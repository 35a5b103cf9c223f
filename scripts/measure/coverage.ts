/**
 * Measures which lines of the product the tests run: `deno task coverage`. deno
 * counts them and draws the report.
 *
 * Counts what runs in the processes of the tests and in children started from
 * source. An executable gives no coverage, so tests that need one skip.
 *
 * @module
 */

import { ROOT, ROOT_URL } from "../project.ts";
import { answerHelp, readOptions } from "../command_line.ts";
import { importFlags } from "../import_flags.ts";
import { installTestPackages } from "../setup/debian_packages.ts";
import { listTestFiles, planBatches } from "../test/files.ts";
import { createStop, runAll, testFiles } from "../test/run.ts";

const HELP = `Measure which lines of the product the tests run.
Usage: deno task coverage [--html] [--no-kernel]
  --html       write pages to build/coverage/html as well
  --no-kernel  leave out the tests in User-mode Linux
Writes build/coverage/lcov.info. Exits with 1 if fewer than 90 % of the lines run.`;

/** What is measured. */
const DIRECTORIES = ["cni", "ipam", "net", "ffi/netlink", "plugins"];
const OUTPUT = `${ROOT}build/coverage`;
const RAW = `${OUTPUT}/raw`;
const REPORT = [
  "coverage",
  `--include=^${ROOT_URL.href}(${DIRECTORIES.join("|")})/`,
  "--exclude=(_test\\.ts$|/testing(\\.ts$|/))",
  RAW,
];
/** Tests of features that the machine's kernel may lack: VLANs, ipvlan, vrf, dummy. */
const KERNEL_TESTS =
  /^(?:plugins|ffi\/rtnl)\/.*(?:vlan|vrf|dummy)|^tests\/conformance\/(?:.*vlan|vrf|dummy)/;
/** Time limit of all tests. */
const LIMIT_MS = 60 * 60_000;

/** Runs deno in the project, and returns its exit status. */
async function runDeno(args: readonly string[], env = {}): Promise<number> {
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: ROOT,
    env,
  });
  return (await command.spawn().status).code;
}

async function runTests(env: Record<string, string>): Promise<void> {
  const flags = await importFlags();
  const files = listTestFiles(ROOT_URL)
    .filter(({ path }) => !path.startsWith("scripts/"));
  const { failures } = await runAll(
    planBatches(files).map((batch) => testFiles(batch, flags)),
    {
      root: ROOT_URL,
      env,
      stop: createStop(LIMIT_MS),
      print: (text) => console.log(text),
      log: () => {},
    },
  );
  if (failures.length > 0) console.log(`\n${failures.join("\n")}`);
}

if (import.meta.main) {
  answerHelp(HELP);
  const { html, ...others } = readOptions({
    "html": { type: "boolean" },
    "no-kernel": { type: "boolean" },
  });
  await installTestPackages();
  await Deno.remove(OUTPUT, { recursive: true }).catch(() => {});
  await Deno.mkdir(RAW, { recursive: true });
  const env = { DENO_COVERAGE_DIR: RAW, CNI_LOG_FILE: "stderr" };
  Deno.env.delete("CNI_BIN");
  await runTests(env);
  if (!others["no-kernel"]) {
    const paths = listTestFiles(ROOT_URL).map(({ path }) => path);
    const some = paths.filter((path) => KERNEL_TESTS.test(path));
    await runDeno(["task", "test:kernel", ...some], env);
  }
  await runDeno([...REPORT, "--lcov", `--output=${OUTPUT}/lcov.info`]);
  if (html) {
    await runDeno([...REPORT, "--html"]);
    await Deno.rename(`${RAW}/html`, `${OUTPUT}/html`);
  }
  Deno.exitCode = await runDeno(REPORT);
}
