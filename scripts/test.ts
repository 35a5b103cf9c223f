/**
 * Runs the tests: what `deno task test` does.
 *
 * As root it first installs the Debian packages that the tests need, unless
 * `CNI_TEST_NO_INSTALL=1`. It builds the executables and tells the tests where
 * by `CNI_BIN`. Arguments go to `deno test`: paths, `--filter` and so on.
 * What cannot be tested here is skipped with a reason. The last line counts.
 *
 * @module
 */

import { canUseNetns } from "../tests/_harness/capabilities.ts";
import { ensureCompiled } from "./compile.ts";
import { ensureDebianPackages } from "./debian_packages.ts";
import { importFlags } from "./net.ts";
import {
  countConformance,
  formatTally,
  judgeTestRun,
  sumTallies,
  type Tally,
} from "./tally.ts";
import { tee } from "./tee.ts";

/**
 * Oracles, tools and the Go plugins that the tests compare with, and what runs
 * an executable for arm64.
 */
const DEBIAN_PACKAGES = [
  "conntrack",
  "containernetworking-plugins",
  "iproute2",
  "iptables",
  "iputils-ping",
  "libc6-arm64-cross",
  "libgcc-s1-arm64-cross",
  "nftables",
  "procps",
  "qemu-user",
  "strace",
];

/** How long the tests may take, so that a test that hangs ends in a report. */
const TIMEOUT_MS = 14 * 60_000;

async function installPackages(): Promise<void> {
  if (Deno.env.get("CNI_TEST_NO_INSTALL") === "1") return;
  const missing = await ensureDebianPackages(DEBIAN_PACKAGES);
  if (missing.length === 0) return;
  console.error(`Not installed, so some tests skip: ${missing.join(" ")}`);
}

function explainSkips(): void {
  if (canUseNetns) return;
  console.error(
    "Tests in network namespaces skip: run as root, or under `unshare -Urnm`",
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

/** @param bin The folder of the executables, if they could be built */
async function runTests(
  bin: string | undefined,
  args: readonly string[],
): Promise<Tally> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const { output, success } = await tee(Deno.execPath(), {
    args: ["test", "-A", ...await importFlags(), ...args],
    cwd: new URL("..", import.meta.url),
    env: bin === undefined ? {} : { CNI_BIN: bin },
    signal,
  });
  // Ended within a test's line, which the counts must not join.
  if (!output.endsWith("\n")) console.log();
  if (signal.aborted) console.error("The tests took too long and were ended");
  console.log(`conformance rows: ${formatTally(countConformance(output))}`);
  return judgeTestRun(output, success);
}

if (import.meta.main) {
  await installPackages();
  explainSkips();
  const bin = await buildExecutables();
  const build = { passed: 0, failed: bin === undefined ? 1 : 0, skipped: 0 };
  const tally = sumTallies([build, await runTests(bin, Deno.args)]);
  console.log(formatTally(tally));
  Deno.exitCode = tally.failed > 0 ? 1 : 0;
}
