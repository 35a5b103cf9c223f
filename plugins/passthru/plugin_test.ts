import { assertEquals } from "@std/assert";
import { execInvoker } from "../../cni/invoke/exec_invoker.ts";
import type { DispatchOutput } from "../../cni/invoke/invoker.ts";
import { dispatch } from "../../cni/skel.ts";
import { passthru } from "./plugin.ts";

/** Runs the plugin for a sandbox that is not there. */
async function run(command: string, config: object): Promise<DispatchOutput> {
  return await dispatch(passthru, {
    env: {
      CNI_COMMAND: command,
      CNI_CONTAINERID: "c1",
      CNI_NETNS: "/no/such/netns",
      CNI_IFNAME: "eth0",
      CNI_PATH: "/no/such/bin",
    },
    stdin: () =>
      new TextEncoder().encode(JSON.stringify({ name: "net1", ...config })),
    invoker: execInvoker,
    hostNetns: "/proc/thread-self/ns/net",
  });
}

Deno.test("passthru.add() answers an empty result in the configuration's version", async (t) => {
  for (const cniVersion of ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]) {
    await t.step(cniVersion, async () => {
      const { exitCode, stdout } = await run("ADD", { cniVersion });
      assertEquals(exitCode, 0, stdout);
      const { dns = {}, ...result } = JSON.parse(stdout);
      assertEquals([dns, result], [{}, { cniVersion }]);
    });
  }
});

Deno.test("passthru.add() answers what the plugin before did", async () => {
  const prevResult = {
    cniVersion: "1.0.0",
    interfaces: [{ name: "eth0", sandbox: "/n" }],
    ips: [{ address: "10.1.1.2/24", interface: 0 }],
    dns: { nameservers: ["10.1.1.1"] },
  };
  const { stdout } = await run("ADD", { cniVersion: "1.0.0", prevResult });
  assertEquals(JSON.parse(stdout), prevResult);
});

Deno.test("passthru has nothing else to do", async (t) => {
  for (const command of ["DEL", "CHECK", "STATUS", "GC"]) {
    await t.step(command, async () => {
      const output = await run(command, { cniVersion: "1.1.0" });
      assertEquals([output.exitCode, output.stdout], [0, ""]);
    });
  }
});

Deno.test("passthru refuses versions that have no empty result", async (t) => {
  for (const cniVersion of ["0.1.0", "0.2.0"]) {
    await t.step(cniVersion, async () => {
      const { stdout } = await run("ADD", { cniVersion });
      assertEquals(JSON.parse(stdout).code, 1);
    });
  }
});
