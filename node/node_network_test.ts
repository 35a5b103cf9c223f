import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { CniError, describeError } from "../base/error.ts";
import { eachRow } from "../tests/_harness/table.ts";
import { TestNode } from "./testing.ts";
import { PodNetworkError } from "./pod.ts";
import { CheckNotSupportedError } from "../libcni/mod.ts";

/** A node with one network of the plugin `a`. */
function nodeOf(
  keys: Readonly<Record<string, unknown>> = {},
  plugin: Readonly<Record<string, unknown>> = {},
): TestNode {
  const node = new TestNode();
  node.addPlugin("a");
  node.addNetwork("10-net1.conflist", [{ type: "a", ...plugin }], keys);
  return node;
}

Deno.test("NodeNetwork.status() is ready with a network", async () => {
  using node = nodeOf();
  node.conf.add("05-broken.conflist", "{");
  const { isReady, network, skipped, reason, error } = await node.network
    .status();
  assertEquals([isReady, reason, error], [true, undefined, undefined]);
  assertEquals(network, {
    name: "net1",
    path: `${node.conf.path}/10-net1.conflist`,
  });
  assertEquals(skipped.map(({ path }) => path), [
    `${node.conf.path}/05-broken.conflist`,
  ]);
  assertEquals(node.story, ["a STATUS"]);
});

Deno.test("NodeNetwork.status() reports why it is not ready", async (t) => {
  await t.step("no network", async () => {
    using node = new TestNode();
    const { isReady, reason, error } = await node.network.status();
    assertEquals([isReady, error?.code, error?.message], [
      false,
      50,
      "cni config uninitialized",
    ]);
    assert(reason?.startsWith("cni config uninitialized"));
  });
  await eachRow(t, [50, 51], async (code) => {
    using node = nodeOf();
    node.addPlugin("a", {
      STATUS: `echo '{"code":${code},"msg":"out of order"}'; exit 1`,
    });
    const { isReady, reason, error, network } = await node.network.status();
    assertEquals([isReady, reason, error?.code, network?.name], [
      false,
      "out of order",
      code,
      "net1",
    ]);
  }, (code) => `a plugin's code ${code}`);
  await t.step("a plugin that hangs", async () => {
    using node = nodeOf();
    node.addPlugin("a", { STATUS: "exec sleep 60" });
    // By then the plugins have told their versions.
    await node.network.tearDownPod(node.pod());
    const { isReady, reason } = await node.network.status({ timeoutMs: 500 });
    assertEquals(isReady, false);
    assertStringIncludes(reason ?? "", "signal: killed");
  });
});

Deno.test("NodeNetwork.setPodCidrs() makes a node ready that requires ranges", async () => {
  using node = nodeOf({}, { capabilities: { ipRanges: true } });
  const before = await node.network.status();
  assertEquals(
    [before.isReady, before.reason, before.error?.code],
    [false, "cni config needs ipRanges but no PodCIDR set", 50],
  );
  await assertRejects(
    () => node.network.setUpPod(node.pod()),
    PodNetworkError,
  );
  node.network.setPodCidrs(["10.1.2.0/24"]);
  assertEquals((await node.network.status()).isReady, true);
  node.network.setPodCidrs(["10.1.2.0/24"]);
  assertEquals(node.plugins.logged.includes("PodCIDRs"), false);
  node.network.setPodCidrs(["10.9.9.0/24"]);
  assertStringIncludes(node.plugins.logged, "Ignored a change of PodCIDRs");
  await node.network.setUpPod(node.pod());
  const add = node.plugins.calls.find(({ type, command }) =>
    type === "a" && command === "ADD"
  );
  assertEquals(add?.stdin.runtimeConfig.ipRanges, [[{
    subnet: "10.1.2.0/24",
  }]]);
});

Deno.test("NodeNetwork refuses an invalid PodCIDR", () => {
  using node = new TestNode();
  assertThrows(() => node.restart({ podCidr: "10.1.2.3" }), CniError);
  assertThrows(() => node.network.setPodCidrs(["a"]), CniError);
});

Deno.test("NodeNetwork reports finished operations", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  await node.network.tearDownPod(node.pod());
  const error = await assertRejects(
    () => node.network.getPodNetworkStatus(node.pod()),
    PodNetworkError,
  );
  assertEquals(error.code, 8);
  const [setUp, tearDown, status] = node.operations;
  assertEquals(node.operations.map(({ operation }) => operation), [
    "set_up_pod",
    "tear_down_pod",
    "get_pod_network_status",
  ]);
  assertEquals([setUp?.error, tearDown?.error, status?.error], [
    undefined,
    undefined,
    error,
  ]);
  assert(node.operations.every(({ milliseconds }) => milliseconds > 0));
});

Deno.test("NodeNetwork ignores errors of the callback that counts operations", async () => {
  using node = nodeOf();
  const network = node.restart({
    onOperation(): void {
      throw new Error("out of paper");
    },
  });
  await network.setUpPod(node.pod());
  assertStringIncludes(node.plugins.logged, "out of paper");
});

/** Has `a` take a moment for ADD and DEL, and note when it begins and ends. */
function slowDown(node: TestNode): () => string[] {
  const path = `${node.plugins.directory.path}/notes`;
  const slowly = (command: string, answer: string): string =>
    `echo "begin ${command} $CNI_CONTAINERID" >> ${path}; sleep 0.1; ` +
    `echo "end ${command} $CNI_CONTAINERID" >> ${path}; ${answer}`;
  node.addPlugin("a", {
    ADD: slowly("ADD", `echo '{"ips":[{"address":"10.1.2.3/24"}]}'`),
    DEL: slowly("DEL", "true"),
  });
  return () => Deno.readTextFileSync(path).trim().split("\n");
}

Deno.test("NodeNetwork runs operations on one pod one at a time, for any sandbox", async () => {
  using node = nodeOf();
  const notes = slowDown(node);
  await Promise.all([
    node.network.setUpPod(node.pod({ containerId: "old" })),
    node.network.tearDownPod(node.pod({ containerId: "old" })),
    node.network.setUpPod(node.pod({ containerId: "new" })),
  ]);
  assertEquals(notes(), [
    "begin ADD old",
    "end ADD old",
    "begin DEL old",
    "end DEL old",
    "begin ADD new",
    "end ADD new",
  ]);
});

Deno.test("NodeNetwork runs operations on several pods at the same time", async () => {
  using node = nodeOf();
  const notes = `${node.plugins.directory.path}/notes`;
  // Each one waits for the other two, and not for ever.
  node.addPlugin("a", {
    ADD: `echo >> ${notes}; tries=0
      while [ "$(wc -l < ${notes})" -lt 3 ]; do
        tries=$((tries + 1)); [ $tries -lt 1000 ] || exit 1; sleep 0.01
      done
      echo '{"ips":[{"address":"10.1.2.3/24"}]}'`,
  });
  await Promise.all(
    ["c1", "c2", "c3"].map((containerId) =>
      node.network.setUpPod(node.pod({ containerId, name: containerId }))
    ),
  );
});

Deno.test("NodeNetwork fails at its time limit if another process holds the pod", async () => {
  using node = nodeOf();
  slowDown(node);
  await node.network.status();
  const first = node.network.setUpPod(node.pod());
  const error = await assertRejects(
    () => node.network.tearDownPod(node.pod(), { timeoutMs: 1 }),
    PodNetworkError,
  );
  assertEquals(error.code, 11);
  assertStringIncludes(
    describeError(error),
    'Cannot lock pod "default/pod1": another operation on it is in progress',
  );
  assertEquals((await first).network, "net1");
});

Deno.test("NodeNetwork excludes other processes from a container", async () => {
  using node = nodeOf();
  const notes = slowDown(node);
  // Two agents, and pods of other names: only the container is the same.
  await Promise.all([
    node.network.setUpPod(node.pod({ name: "pod1" })),
    node.restart().tearDownPod(node.pod({ name: "pod2" })),
  ]);
  const words = notes().map((note) => note.slice(0, -3));
  const isPaired = words.every((word, index) =>
    index % 2 === 0
      ? word.startsWith("begin")
      : word === words[index - 1]?.replace("begin", "end")
  );
  assert(isPaired, words.join());
});

async function failureOf(node: TestNode): Promise<PodNetworkError> {
  const operation = node.network.checkPod(node.pod());
  return await assertRejects(() => operation, PodNetworkError);
}

Deno.test("checkPod() uses the configuration with which the pod was set up", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  node.addNetwork("05-net0.conflist", ["a"], { name: "net0" });
  await node.network.checkPod(node.pod({ uid: "another" }));
  assertEquals(node.story.slice(2), ["loopback CHECK", "a CHECK"]);
  const [add, check] = node.plugins.calls.filter(({ type, command }) =>
    type === "a" && command !== "VERSION"
  );
  assertEquals([check?.args, check?.netns], [add?.args, add?.netns]);
  assertEquals(check?.stdin.name, "net1");
  assertEquals(check?.stdin.prevResult.ips[0].address, "10.1.2.3/24");
});

Deno.test("checkPod() throws the error of a plugin", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  node.addPlugin("a", { CHECK: `echo '{"code":103,"msg":"gone"}'; exit 1` });
  const error = await failureOf(node);
  assertEquals([error.code, `${error}`], [
    103,
    'networkPlugin cni failed to check pod "pod1_default" network: gone',
  ]);
});

Deno.test("checkPod() reports that the network's version has no CHECK", async () => {
  using node = nodeOf({ cniVersion: "0.3.1" });
  node.addPlugin("a", {
    ADD:
      `echo '{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.1.2.3/24"}]}'`,
  });
  await node.network.setUpPod(node.pod());
  assertInstanceOf((await failureOf(node)).cause, CheckNotSupportedError);
});

Deno.test("checkPod() refuses a pod without attachments", async () => {
  using node = nodeOf();
  const error = await failureOf(node);
  assertEquals([error.code, node.story], [3, []]);
});
