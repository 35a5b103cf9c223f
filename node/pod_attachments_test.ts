import { assertEquals, assertThrows } from "@std/assert";
import type { CachedAttachment } from "../libcni/mod.ts";
import { createLog } from "../base/log/log.ts";
import { rootTest } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import {
  findNetns,
  isOfPod,
  readCachedPod,
  restoreAttachment,
} from "./pod_attachments.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

function cachedAttachment(
  keys: Partial<CachedAttachment> = {},
): CachedAttachment {
  const document = { name: "net1", plugins: [{ type: "a" }] };
  return {
    network: "net1",
    containerId: "c1",
    ifName: "eth0",
    netns: "/run/netns/c1",
    config: new TextEncoder().encode(JSON.stringify(document)),
    cniArgs: [["K8S_POD_INFRA_CONTAINER_ID", "c1"]],
    capabilityArgs: { mac: "0a:00:00:00:00:01" },
    result: undefined,
    since: new Date(),
    path: "/var/lib/cni/results/net1-c1-eth0",
    ...keys,
  };
}

Deno.test("readCachedPod() separates the loopback from the networks", () => {
  const cached = [
    cachedAttachment({ network: "cni-loopback", ifName: "lo" }),
    cachedAttachment(),
    cachedAttachment({ network: "net2" }),
  ];
  const runtime = { listCachedAttachments: (): CachedAttachment[] => cached };
  const { loopback, networks } = readCachedPod({ runtime }, {
    containerId: "c1",
  });
  assertEquals([loopback, networks], [cached[0], cached.slice(1)]);
});

Deno.test("restoreAttachment() restores the input of ADD, except the namespace", () => {
  const { list, conf } = restoreAttachment(cachedAttachment(), "");
  assertEquals(list.plugins.map(({ type }) => type), ["a"]);
  assertEquals(conf, {
    containerId: "c1",
    netns: "",
    ifName: "eth0",
    args: [["K8S_POD_INFRA_CONTAINER_ID", "c1"]],
    capabilityArgs: { mac: "0a:00:00:00:00:01" },
  });
});

Deno.test("restoreAttachment() refuses a malformed configuration", () => {
  const config = new TextEncoder().encode("{");
  assertThrows(() => restoreAttachment(cachedAttachment({ config }), ""));
});

testRows("isOfPod() compares the sandbox in CNI_ARGS", [
  [[], false],
  [[["IgnoreUnknown", "1"]], false],
  [[["K8S_POD_INFRA_CONTAINER_ID", "c2"]], false],
  [[["IgnoreUnknown", "1"], ["K8S_POD_INFRA_CONTAINER_ID", "c1"]], true],
], ([cniArgs, expected]: [[string, string][], boolean]) => {
  assertEquals(isOfPod(cachedAttachment({ cniArgs })), expected);
}, ([cniArgs]) => JSON.stringify(cniArgs));

rootTest("findNetns() reports whether a namespace was deleted", async (t) => {
  using hosts = TestHosts.create();
  const plain = `${hosts.directory}/plain`;
  await Deno.writeTextFile(plain, "");
  const rows: [name: string, netns: string, isThere: boolean][] = [
    ["one that is there", hosts.sandbox.path, true],
    ["none", "", false],
    ["a path that leads nowhere", "/run/netns/no-such-namespace", false],
    ["the file that a reboot leaves", plain, false],
    ["the host's own", hosts.host.path, false],
  ];
  await eachRow(t, rows, ([, netns, isThere]) => {
    let logged = "";
    const log = createLog({}, (line) => logged += line);
    const node = { hostNetns: hosts.host.path, log };
    assertEquals(
      findNetns(node, { netns, containerId: "c1" }),
      isThere ? netns : "",
    );
    assertEquals(/namespace was deleted/.test(logged), !isThere);
  });
});
