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
  DataFolder,
  ownProgram,
  runAs,
} from "./_harness/host_local.ts";

const program = await ownProgram();

const { ignore, suffix } = allOf(
  needsBin,
  ignoreUnless(canUseNetns && hasCommand("unshare"), "needs root"),
);

Deno.test({
  name: `/etc/cni/log.json tells all plugins of a node where to log${suffix}`,
  ignore,
  fn: async () => {
    using folder = new DataFolder();
    const log = `${folder.path}/log/plugins.log`;
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
    const config = folder.config({ ranges: 5 });
    const { exitCode, stderr } = await run("DEL", config);
    assertEquals(exitCode, 0);
    const record = await Deno.readTextFile(log);
    assertMatch(record, /^time=\S+Z level=warn plugin=host-local command=DEL /);
    assertEquals(record.replace(/^time=\S+ /, ""), stderr);
    assertMatch(record, / containerId=dummy .* problem="ipam.ranges: .*"\n$/);
  },
});

const strace = allOf(
  needsBin,
  ignoreUnless(hasCommand("strace"), "needs strace"),
);

Deno.test({
  name: `a call without log lines looks for no log file${strace.suffix}`,
  ignore: strace.ignore,
  fn: async () => {
    using folder = new DataFolder();
    const trace = folder.write("strace.log", "");
    const run = runAs(
      ["strace", "-f", "-qq", "-o", trace, "-e", "trace=file", ...program],
    );
    const config = folder.config({ subnet: "10.1.2.0/24" });
    for (const command of ["ADD", "DEL"]) {
      const output = await run(command, config);
      if (command === "DEL") assertSuccess(output);
      else assertEquals(output.exitCode, 0);
      const calls = await Deno.readTextFile(trace);
      assert(calls.includes(folder.folderOf()), "nothing was traced");
      assert(!calls.includes("log.json"), command);
    }
    const { exitCode } = await run("DEL", folder.config({ ranges: 5 }));
    assertEquals(exitCode, 0);
    assert((await Deno.readTextFile(trace)).includes("/etc/cni/log.json"));
  },
});
