import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { describeError } from "../base/error.ts";
import { AttachmentLocks, lockDirectoryOf } from "../libcni/mod.ts";
import { TestNode } from "./testing.ts";
import type { Pod } from "./pod.ts";

function nodeOf(keys: Readonly<Record<string, unknown>> = {}): TestNode {
  const node = new TestNode();
  node.addPlugin("a");
  node.addNetwork("10-net1.conflist", ["a"], keys);
  return node;
}

function podOf(node: TestNode, containerId: string): Pod {
  return node.pod({ name: containerId, containerId });
}

async function setUp(node: TestNode, ...ids: string[]): Promise<void> {
  for (const id of ids) await node.network.setUpPod(podOf(node, id));
}

/** What was done after the set-ups, and for whom. */
function collected(node: TestNode): string[] {
  return node.plugins.calls
    .filter(({ command }) => !["ADD", "VERSION", "STATUS"].includes(command))
    .map(({ type, command, containerId }) =>
      `${type} ${command} ${containerId}`.trim()
    );
}

Deno.test("collectGarbage() detaches deleted pods, and runs GC of the plugins", async () => {
  using node = nodeOf();
  await setUp(node, "c1", "c2");
  await node.network.collectGarbage([{ containerId: "c2" }]);
  assertEquals(collected(node), ["loopback DEL c1", "a DEL c1", "a GC"]);
  assertEquals(node.plugins.cached, ["cni-loopback-c2-lo", "net1-c2-eth0"]);
  const gc = node.plugins.calls.at(-1);
  assertEquals(gc?.stdin["cni.dev/valid-attachments"], [
    { containerID: "c2", ifname: "eth0" },
    { containerID: "c2", ifname: "lo" },
  ]);
});

Deno.test("collectGarbage() keeps a valid pod whose files were lost or truncated", async () => {
  using node = nodeOf();
  const directory = `${node.plugins.cacheDir}/results`;
  await Deno.mkdir(directory, { recursive: true });
  for (const name of ["net1-c2-net1", "net1-c1-eth0", "net2-c2-eth1"]) {
    await Deno.writeTextFile(`${directory}/${name}`, "{");
  }
  await node.network.collectGarbage([{ containerId: "c2" }]);
  const gc = node.plugins.calls.at(-1);
  assertEquals(gc?.stdin["cni.dev/valid-attachments"], [
    { containerID: "c2", ifname: "eth0" },
    { containerID: "c2", ifname: "net1" },
  ]);
});

Deno.test("collectGarbage() detaches pods from former default networks", async () => {
  using node = nodeOf();
  await setUp(node, "c1", "c2");
  node.addPlugin("b");
  node.addNetwork("05-net0.conflist", ["b"], { name: "net0" });
  await node.network.collectGarbage(() => [{ containerId: "c2" }]);
  assertEquals(collected(node), ["loopback DEL c1", "a DEL c1", "b GC"]);
});

Deno.test("collectGarbage() keeps attachments that belong to no pod", async () => {
  using node = nodeOf();
  const runtime = node.plugins.runtime();
  const list = node.plugins.list(["a"], { name: "byhand" });
  await runtime.addNetworkList(list, node.plugins.conf());
  await node.network.collectGarbage([]);
  assertEquals(collected(node), ["a GC"]);
  assertEquals(node.plugins.cached, ["byhand-c1-eth0"]);
});

Deno.test("collectGarbage() skips a network with disableGC", async () => {
  using node = nodeOf({ disableGC: true });
  await setUp(node, "c1");
  await node.network.collectGarbage([]);
  assertEquals(collected(node), ["loopback DEL c1"]);
});

Deno.test("collectGarbage() detaches pods without a default network", async () => {
  using node = nodeOf();
  await setUp(node, "c1");
  node.writeConf("10-net1.conflist", "{");
  await node.network.collectGarbage([]);
  assertEquals(collected(node), ["loopback DEL c1", "a DEL c1"]);
});

Deno.test("collectGarbage() continues after failures, and throws them all", async () => {
  using node = nodeOf();
  await setUp(node, "c1");
  node.addPlugin("a", { DEL: "exit 3", GC: "exit 4" });
  const error = await assertRejects(() => node.network.collectGarbage([]));
  assertStringIncludes(
    describeError(error),
    'Cannot detach container "c1" from network "net1" as "eth0"',
  );
  assertStringIncludes(describeError(error), "exit status 4");
  assertEquals(node.plugins.cached, ["net1-c1-eth0"]);
});

Deno.test("collectGarbage() reads the cache once", async () => {
  using node = nodeOf();
  await setUp(node, "c1");
  const results = `${node.plugins.cacheDir}/results`;
  // As a runtime without locks does.
  const cache =
    `sed s/c1/c2/ ${results}/net1-c1-eth0 > ${results}/net1-c2-eth0`;
  node.addPlugin("a", { DEL: cache });
  await node.network.collectGarbage([]);
  assertEquals(collected(node), ["loopback DEL c1", "a DEL c1", "a GC"]);
  assertEquals(node.plugins.cached, ["net1-c2-eth0"]);
});

Deno.test("collectGarbage() waits for running set-ups, and keeps their pods", async () => {
  using node = nodeOf();
  node.addPlugin("a", {
    ADD: `sleep 0.2; echo '{"ips":[{"address":"10.1.2.3/24"}]}'`,
  });
  await node.network.status();
  const setUps = ["c1", "c2"].map((id) =>
    node.network.setUpPod(podOf(node, id))
  );
  const collection = node.network.collectGarbage([]);
  const late = node.network.setUpPod(podOf(node, "c3"));
  await Promise.all([...setUps, collection]);
  assertEquals(collected(node), ["a GC"]);
  assertEquals(
    node.plugins.cached.filter((name) => /c[12]/.test(name)).length,
    4,
  );
  await late;
});

Deno.test("collectGarbage() lists the valid pods while no set-up runs", async () => {
  using node = nodeOf();
  const setUps = ["c1", "c2", "c3"].map((id) =>
    node.network.setUpPod(podOf(node, id))
  );
  await setUps[0];
  let begun = 0, ended = 0;
  const collection = node.network.collectGarbage(() => {
    begun = node.story.filter((call) => call === "a ADD").length;
    ended = node.plugins.cached.filter((name) => /^net1/.test(name)).length;
    return [{ containerId: "c2" }, { containerId: "c3" }];
  });
  await Promise.all([...setUps, collection]);
  assertEquals(begun, ended);
  assertEquals(collected(node), ["loopback DEL c1", "a DEL c1", "a GC"]);
});

Deno.test("collectGarbage() keeps a pod whose set-up gets the lock first", async () => {
  using node = nodeOf();
  const locks = new AttachmentLocks(lockDirectoryOf(node.plugins.cacheDir));
  const other = await locks.lockExclusively();
  const collection = node.network.collectGarbage([]);
  // Whoever of the two comes first now, the pod was in no list.
  const setUps = ["c1", "c2", "c3"].map((id) =>
    node.network.setUpPod(podOf(node, id))
  );
  other[Symbol.dispose]();
  await Promise.all([collection, ...setUps]);
  assertEquals(collected(node), ["a GC"]);
  assertEquals(node.plugins.cached.length, 6);
});
