/**
 * The log file of a node, with whole executables: the setting that needs no
 * environment, and what it costs those that have nothing to log.
 *
 * @module
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  allOf,
  canUseNetns,
  hasCommand,
  ignoreUnless,
} from "../testing/capabilities.ts";
import { needsBin } from "./_harness/executables.ts";
import {
  assertSuccess,
  DataDirectory,
  ownProgram,
  runAs,
} from "../ipam/host_local/testing.ts";

// The tests' own log would hide the node's.
const program = ["env", "-u", "CNI_LOG_FILE", ...await ownProgram()];

const needs = allOf(
  needsBin,
  ignoreUnless(canUseNetns && hasCommand("unshare"), "needs root"),
);
const { ignore, suffix } = needs;

Deno.test({
  name: `/etc/cni/log.json sets the log file of all plugins on a node${suffix}`,
  ignore,
  fn: async () => {
    using directory = new DataDirectory();
    const log = `${directory.path}/log/plugins.log`;
    // Only this process sees that /etc.
    const script = `mount -t tmpfs tmpfs /etc && mkdir /etc/cni &&
      echo '{"logFile":"${log}"}' > /etc/cni/log.json && exec "$@"`;
    const run = runAs([
      "unshare",
      "--mount",
      "sh",
      "-c",
      script,
      "sh",
      ...program,
    ]);
    const config = directory.config({ ranges: 5 });
    const { exitCode, stderr } = await run("DEL", config);
    assertEquals([exitCode, stderr], [0, ""]);
    const record = await Deno.readTextFile(log);
    assertMatch(record, /^time=\S+Z level=warn plugin=host-local command=DEL /);
    assertMatch(record, / containerId=dummy .* problem="ipam.ranges: .*"\n$/);
  },
});

Deno.test({
  name: `without settings, warnings are written to /var/log/cni${suffix}`,
  ignore,
  fn: async () => {
    using directory = new DataDirectory();
    // Only this process sees these directories. Without a place for the log, stderr
    // has the warning.
    const script =
      `mount -t tmpfs tmpfs /etc && mount -t tmpfs tmpfs /var/log &&
      { [ -z "$BLOCKED" ] || touch /var/log/cni; } && "$@" && cd /var/log &&
      { [ -n "$BLOCKED" ] || cat cni/plugins.log >&2; }`;
    const args = ["unshare", "--mount", "sh", "-c", script, "sh", ...program];
    const config = directory.config({ ranges: 5 });
    const kept = await runAs(args)("DEL", config);
    assertEquals(kept.exitCode, 0);
    assertMatch(kept.stderr, /^time=.*Z level=warn plugin=host-local .*\n$/);
    const shown = await runAs(["env", "BLOCKED=1", ...args])("DEL", config);
    assertEquals(shown.exitCode, 0);
    assertMatch(shown.stderr, /^level=warn plugin=host-local .*\n$/);
  },
});

// A log that /etc/cni/log.json names is the machine's.
const HIDE_LOG = "mount -t tmpfs tmpfs /etc && mount -t tmpfs tmpfs /var/log" +
  ' && exec "$@"';

const strace = allOf(
  needs,
  ignoreUnless(hasCommand("strace"), "needs strace"),
);

Deno.test({
  name: `a call without log lines opens no log file${strace.suffix}`,
  ignore: strace.ignore,
  fn: async () => {
    using directory = new DataDirectory();
    const trace = directory.write("strace.log", "");
    const command = ["strace", "-f", "-qq", "-o", trace, "-e", "trace=file"];
    const run = runAs(["unshare", "--mount", "sh", "-c", HIDE_LOG, "sh"].concat(
      command,
      program,
    ));
    const config = directory.config({ subnet: "10.1.2.0/24" });
    for (const command of ["ADD", "DEL"]) {
      const output = await run(command, config);
      if (command === "DEL") assertSuccess(output);
      else assertEquals(output.exitCode, 0);
      const calls = await Deno.readTextFile(trace);
      assert(calls.includes(directory.directoryOf()), "nothing was traced");
      assert(!calls.includes("log.json"), command);
    }
    const { exitCode } = await run("DEL", directory.config({ ranges: 5 }));
    assertEquals(exitCode, 0);
    const calls = await Deno.readTextFile(trace);
    assert(calls.includes("/etc/cni/log.json"));
  },
});
