import { assertEquals } from "@std/assert";
import { type Outcome, runCommand } from "../../tests/_harness/recorder.ts";
import { passthru } from "./plugin.ts";
import { testRows } from "../../tests/_harness/table.ts";

/** Runs the plugin for a sandbox that does not exist. */
function run(command: string, config: object): Promise<Outcome> {
  return runCommand(passthru, command, { name: "net1", ...config });
}

Deno.test("passthru.add() returns an empty result in the configuration's version", async (t) => {
  for (const cniVersion of ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]) {
    await t.step(cniVersion, async () => {
      const { exitCode, stdout } = await run("ADD", { cniVersion });
      assertEquals(exitCode, 0, stdout);
      const { dns = {}, ...result } = JSON.parse(stdout);
      assertEquals([dns, result], [{}, { cniVersion }]);
    });
  }
});

Deno.test("passthru.add() returns prevResult", async () => {
  const prevResult = {
    cniVersion: "1.0.0",
    interfaces: [{ name: "eth0", sandbox: "/n" }],
    ips: [{ address: "10.1.1.2/24", interface: 0 }],
    dns: { nameservers: ["10.1.1.1"] },
  };
  const { stdout } = await run("ADD", { cniVersion: "1.0.0", prevResult });
  assertEquals(JSON.parse(stdout), prevResult);
});

testRows(
  "passthru succeeds without output on all other commands",
  ["DEL", "CHECK", "STATUS", "GC"],
  async (command) => {
    const output = await run(command, { cniVersion: "1.1.0" });
    assertEquals([output.exitCode, output.stdout], [0, ""]);
  },
);

testRows("passthru refuses versions that have no empty result", [
  "0.1.0",
  "0.2.0",
], async (cniVersion) => {
  const { stdout } = await run("ADD", { cniVersion });
  assertEquals(JSON.parse(stdout).code, 1);
});
