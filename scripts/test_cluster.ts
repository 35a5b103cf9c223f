/**
 * Runs the tests on a Kubernetes cluster: what `deno task test:cluster` does.
 *
 *     deno task test:cluster [--keep] [ARGUMENTS OF deno test]
 *
 * The cluster is made of processes on this machine, in namespaces of their own:
 * see `tests/cluster/README.md`. As root, and unless `CNI_TEST_NO_INSTALL=1`,
 * this first installs `runc` and other Debian packages, and builds Kubernetes,
 * containerd, etcd, helm and the Go plugins by Go from its module proxy, once.
 * What cannot be had is a skipped test.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { ensureCompiled } from "./compile.ts";
import {
  PROGRAMS_DIRECTORY,
  startClusterPrograms,
} from "./setup/cluster_programs.ts";
import {
  ensureDebianPackages,
  ensureUnpacked,
  installTestPackages,
} from "./setup/debian_packages.ts";
import { exists } from "../base/files/io.ts";
import { startGoPrograms } from "./setup/go_plugins.ts";
import { answerHelp } from "./command_line.ts";
import { importFlags } from "./import_flags.ts";
import { createStop } from "./test/run.ts";

const ROOT = new URL("..", import.meta.url);

/** Time limit of build and tests. */
const LIMIT_MS = 180 * 60_000;

/** Tests that are run unless the command line names others. */
const TESTS = [
  "tests/cluster/",
  "tests/real_api_server_test.ts",
  "tests/chart_test.ts",
];

const HELP = `Run the tests on a Kubernetes cluster on this machine.

Usage: deno task test:cluster [ARGUMENTS OF deno test]
       deno task test:cluster --keep [--nodes N]

  --keep       start a cluster, say how to use it, and leave it up until Ctrl-C
  --nodes N    how many nodes it has (1 to 9); 1 by default
  --filter X   run tests with X in their name; this, paths and other arguments
               go to deno test

Needs root, and for the first run Go and its module proxy: Kubernetes takes some
20 minutes of a processor. Debian packages that tests need are installed unless
CNI_TEST_NO_INSTALL=1. The programs stay in build/peers.`;

/** Gets what the cluster is made of; says what is missing. */
async function prepare(stop: AbortSignal): Promise<void> {
  if (Deno.env.get("CNI_TEST_NO_INSTALL") === "1") return;
  await installTestPackages();
  await ensureDebianPackages(["runc"]);
  if (!exists(PROGRAMS_DIRECTORY)) {
    console.error("Builds Kubernetes, containerd and etcd, once");
  }
  const { ended } = await startClusterPrograms(stop);
  const trouble = await ended;
  if (trouble !== undefined) {
    console.error(`No cluster, so its tests skip: ${trouble}`);
    return;
  }
  await addBusybox();
  const others = await startGoPrograms(stop, "helm");
  const missing = await others.ended;
  if (missing !== undefined) {
    console.error(`Not all Go programs, so some tests skip: ${missing}`);
  }
}

/** Adds what containers run. */
async function addBusybox(): Promise<void> {
  const path = `${PROGRAMS_DIRECTORY}/busybox`;
  if (exists(path)) return;
  const unpacked = `${dirname(PROGRAMS_DIRECTORY)}/busybox`;
  if (await ensureUnpacked(["busybox-static"], unpacked)) {
    await Deno.copyFile(`${unpacked}/bin/busybox`, path);
  }
}

/** Runs the tests, or the program that keeps a cluster; returns the exit code. */
async function run(
  args: readonly string[],
  stop: AbortSignal,
): Promise<number> {
  await prepare(stop);
  const bin = await ensureCompiled();
  const flags = ["-A", ...await importFlags()];
  const [first, ...rest] = args;
  const hasPath = args.some((arg) => arg.startsWith("tests/"));
  const command = first === "--keep"
    ? ["run", ...flags, "tests/cluster/keep.ts", ...rest]
    : ["test", ...flags, "--no-check", ...args, ...hasPath ? [] : TESTS];
  const child = new Deno.Command(Deno.execPath(), {
    args: command,
    cwd: ROOT,
    env: {
      CNI_BIN: bin,
      CNI_KUBE_APISERVER_DIR: PROGRAMS_DIRECTORY,
      CNI_LOG_FILE: "stderr",
    },
    signal: stop,
    stdin: "null",
  }).spawn();
  const { code } = await child.status;
  return code;
}

if (import.meta.main) {
  answerHelp(HELP);
  Deno.exitCode = await run(Deno.args, createStop(LIMIT_MS));
}
