// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * multus and processes: one for all plugins of this project, and the same comes
 * of it as of many.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { hasCommand, ignoreUnless } from "../../../testing/capabilities.ts";
import { runIn, snapshot } from "../../../testing/ip_json.ts";
import {
  BIN,
  type HostCall,
  type HostPod,
  hostTest,
  LIMITED,
  MultusHost,
  onHost,
  TWO_NETWORKS,
} from "../testing/host.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";

/** What ADD of a pod left, without what differs from one to the next. */
interface Observed {
  readonly result: unknown;
  readonly files: unknown;
  readonly sandbox: unknown;
}

/** Runs ADD, CHECK and DEL of such a pod, on a node of its own. */
async function attachAndDetach(call: HostCall): Promise<Observed> {
  await using host = await MultusHost.start({ transport: "https" });
  const pod = host.addPod("web", { networks: TWO_NETWORKS });
  const before = snapshot(pod.sandbox);
  const { json } = await host.succeed("ADD", pod, call);
  const observed = {
    result: json,
    files: host.remembered.map((file) => [file, readDecoded(host, file)]),
    sandbox: snapshot(pod.sandbox),
  };
  await host.succeed("CHECK", pod, call);
  await host.succeed("DEL", pod, call);
  assertEquals(snapshot(pod.sandbox), before);
  assertEquals(host.remains(), []);
  return JSON.parse(
    normalise(host, pod, JSON.stringify(observed)),
    // The kernel lists some of them in the order in which links came up.
    (key, value) => key === "routes" ? sorted(value) : value,
  );
}

function sorted(items: readonly unknown[]): string[] {
  return items.map((item) => JSON.stringify(item)).sort();
}

/** Reads a file of multus, with what is encoded in it decoded. */
function readDecoded(host: MultusHost, file: string): unknown {
  const text = Deno.readTextFileSync(`${host.cniDir}/${file}`);
  const decoder = new TextDecoder();
  return JSON.parse(
    text,
    (key, value) =>
      key === "config" || key === "Bytes"
        ? decoder.decode(Uint8Array.fromBase64(value))
        : value,
  );
}

/** Takes out what the kernel chooses, or the test did. */
function normalise(host: MultusHost, pod: HostPod, text: string): string {
  return text.replaceAll(pod.sandbox.path, "SANDBOX")
    .replaceAll(host.hosts.directory, "DIRECTORY")
    .replaceAll(/(veth|bwp)[0-9a-f]+/g, "$1")
    .replaceAll(/fe80::[0-9a-f:]+/g, "fe80::")
    .replaceAll(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
    .replaceAll(/"(ifindex|link_index|link_netnsid)":\d+/g, '"$1":0');
}

/** Runs a call with strace; lists the programs that were executed. */
async function trace(
  host: MultusHost,
  pod: HostPod,
  call: HostCall,
): Promise<string[]> {
  const file = `${host.hosts.directory}/trace`;
  const strace = ["strace", "-f", "-e", "trace=execve", "-o", file];
  const command = [...strace, `${BIN}/multus`];
  await host.succeed("ADD", pod, { ...call, command });
  return Deno.readTextFileSync(file).split("\n")
    .filter((line) => line.endsWith("= 0"))
    .flatMap((line) => /execve\("([^"]+)"/.exec(line)?.[1] ?? []);
}

hostTest("multus attaches the same in one process and in many", async () => {
  const many = { ...LIMITED, env: { CNI_NO_INPROCESS: "1" } };
  assertEquals(await attachAndDetach(LIMITED), await attachAndDetach(many));
});

Deno.test({
  ...onHost(
    "multus starts no process for plugins of this project",
    ignoreUnless(hasCommand("strace"), "needs strace"),
  ),
  async fn(t): Promise<void> {
    await t.step("one for three networks of seven plugins", async () => {
      await using host = await MultusHost.start({ transport: "https" });
      const pod = host.addPod("web", { networks: TWO_NETWORKS });
      assertEquals(await trace(host, pod, LIMITED), [`${BIN}/multus`]);
    });
    await t.step("one for each plugin with CNI_NO_INPROCESS", async () => {
      await using host = await MultusHost.start({ transport: "https" });
      const pod = host.addPod("web", { networks: TWO_NETWORKS });
      const env = { CNI_NO_INPROCESS: "1" };
      const programs = await trace(host, pod, { ...LIMITED, env });
      assertEquals(
        programs.map((path) => path.replace(/.*\//, "")),
        "multus ptp host-local bandwidth bridge static ptp host-local sbr"
          .split(" "),
      );
    });
    await t.step("one more for a third-party plugin", async () => {
      await using host = await MultusHost.start({ transport: "https" });
      using directory = new PluginDirectory();
      const foreign = directory.add("foreign", PASS_ON);
      host.api.putNad("default", "mixed", mixedNetwork(host));
      const pod = host.addPod("web", { networks: "mixed" });
      const env = { CNI_PATH: directory.path };
      const programs = await trace(host, pod, { env });
      const own = programs.filter((path) => path.startsWith(BIN));
      assertEquals(own, [`${BIN}/multus`]);
      assertEquals(programs.includes(foreign), true);
      const rules = runIn(pod.sandbox, "ip", "rule");
      assertStringIncludes(rules, "from 10.20.0.2 lookup 100");
      await host.succeed("DEL", pod, { env });
      assertEquals(host.remains(), []);
    });
  },
});

/** Answers the result of the plugin before it. */
const PASS_ON = `stdin=$(cat)
[ "$CNI_COMMAND" = ADD ] || exit 0
echo "$stdin" | sed 's/.*"prevResult":\\(.*\\),"type":"foreign"}$/\\1/'`;

/** A list with a foreign plugin in the middle. */
function mixedNetwork(host: MultusHost): JsonObject {
  return {
    cniVersion: "1.0.0",
    name: "green",
    plugins: [
      { type: "ptp", ipam: host.hosts.hostLocal("10.20.0.0/16") },
      { type: "foreign" },
      { type: "sbr" },
    ],
  };
}
