/**
 * Containers that request the same MAC or address at the same moment: one of them
 * gets it.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../base/json/json.ts";
import { rootTest } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { assertSuccess } from "./_harness/call_outcome.ts";
import { needsBin, startPlugin } from "./_harness/executables.ts";
import { hostTest, MultusHost } from "../plugins/multus/testing/host.ts";
import type { Spawned } from "./_harness/spawn_in.ts";

const CONTAINERS = 6;
const MAC = "02:00:00:00:00:07";

/** Waits for all ADDs, of which one must succeed; the others find it in use. */
async function assertOneGets(
  adds: readonly Spawned[],
  refusal: string,
): Promise<void> {
  const outputs = await Promise.all(adds.map(({ output }) => output));
  const refused = outputs.filter(({ code }) => code !== 0);
  for (const { stdout } of refused) {
    assertStringIncludes(JSON.parse(stdout).msg, refusal);
  }
  assertEquals(outputs.length - refused.length, 1);
}

const bridge = {
  cniVersion: "1.0.0",
  name: "net1",
  type: "bridge",
  bridge: "cni0",
};
const keys = { runtimeConfig: { mac: MAC } };

rootTest(
  "one of many containers gets a requested MAC on a bridge",
  needsBin,
  async () => {
    using hosts = TestHosts.create();
    const adds = Array.from({ length: CONTAINERS }, (_, index) =>
      startPlugin(
        hosts,
        { type: "bridge", command: "ADD", config: { ...bridge, ...keys } },
        { sandbox: hosts.addNetns(), containerId: `c${index}` },
      ));
    await assertOneGets(adds, `MAC ${MAC}: it is in use by port`);
  },
);

rootTest("one of many containers gets a MAC by tuning", needsBin, async () => {
  using hosts = TestHosts.create();
  const containers = Array.from({ length: CONTAINERS }, (_, index) => ({
    sandbox: hosts.addNetns(),
    containerId: `c${index}`,
  }));
  const prevResults: JsonObject[] = [];
  for (const container of containers) {
    const output = await hosts.run("bridge", "ADD", bridge, container);
    assertSuccess(output);
    prevResults.push(output.json);
  }
  const dataDir = `${hosts.directory}/tuning`;
  const adds = containers.map((container, index) => {
    const prevResult = prevResults[index];
    const tuning = { ...bridge, type: "tuning", dataDir, ...keys, prevResult };
    return startPlugin(
      hosts,
      { type: "tuning", command: "ADD", config: tuning },
      container,
    );
  });
  await assertOneGets(adds, `MAC ${MAC}: it is in use by port`);
});

hostTest("one of many pods gets an address that all request", async () => {
  await using host = await MultusHost.start();
  const networks = [{ name: "blue", ips: ["10.30.0.7/24"] }];
  const pods = Array.from(
    { length: CONTAINERS },
    (_, index) => host.addPod(`web-${index}`, { networks }),
  );
  const adds = pods.map((pod) => host.start("ADD", pod));
  await assertOneGets(adds, "address 10.30.0.7 on network");
});
