import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { describeError } from "../base/error.ts";
import { eachRow } from "../tests/_harness/table.ts";
import { TestNode } from "./testing.ts";
import { PodNetworkError } from "./pod.ts";

/** A node with one network of the plugins `a` and `b`. */
function nodeOf(): TestNode {
  const node = new TestNode();
  node.addPlugin("a");
  node.addPlugin("b");
  const capabilities = { portMappings: true };
  node.addNetwork("10-net1.conflist", [{ type: "a", capabilities }, "b"]);
  return node;
}

const PORTS = [{ hostPort: 8080, containerPort: 80 }];

async function failureOf(
  operation: Promise<unknown>,
): Promise<PodNetworkError> {
  return await assertRejects(() => operation, PodNetworkError);
}

/** What was done since there were so many calls. */
function since(node: TestNode, count: number): string[] {
  return node.story.slice(count);
}

Deno.test("tearDownPod() runs DEL with the input of ADD", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod({ portMappings: PORTS }));
  // Another process, which knows nothing of ports.
  await node.restart().tearDownPod(node.pod({ uid: "another" }));
  assertEquals(since(node, 3), ["b DEL", "a DEL", "loopback DEL"]);
  const [add, del] = node.plugins.calls.filter(({ type, command }) =>
    type === "a" && command !== "VERSION"
  );
  assertEquals(del?.stdin.runtimeConfig, add?.stdin.runtimeConfig);
  assertEquals(del?.args, add?.args);
  assertEquals(node.plugins.cached, []);
});

Deno.test("tearDownPod() logs a warning if the namespace was deleted", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  await node.network.tearDownPod(node.pod());
  const calls = node.plugins.calls.filter(({ command }) => command === "DEL");
  assertEquals(calls.map(({ netns }) => netns), ["", "", ""]);
  assertStringIncludes(
    node.plugins.logged,
    'level=warn component=node-network msg="The network namespace was deleted" ' +
      "containerId=c1 netns=/run/netns/no-such-namespace",
  );
});

Deno.test("tearDownPod() never passes the host's namespace to a plugin", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  const pod = node.pod({ netns: "/proc/thread-self/ns/net" });
  await node.network.tearDownPod(pod);
  const calls = node.plugins.calls.filter(({ command }) => command === "DEL");
  assertEquals(calls.map(({ netns }) => netns), ["", "", ""]);
});

Deno.test("tearDownPod() is idempotent", async () => {
  using node = nodeOf();
  await node.network.tearDownPod(node.pod());
  await node.network.tearDownPod(node.pod({ netns: "" }));
  const once = ["b DEL", "a DEL", "loopback DEL"];
  assertEquals(node.story, [...once, ...once]);
});

Deno.test("tearDownPod() detaches from the default network without a cached attachment", async () => {
  using node = nodeOf();
  await node.network.tearDownPod(node.pod({
    portMappings: PORTS,
    annotations: { "kubernetes.io/ingress-bandwidth": "absurd" },
  }));
  const a = node.plugins.calls.find(({ type, command }) =>
    type === "a" && command === "DEL"
  );
  assertEquals(a?.stdin.runtimeConfig.portMappings[0].hostPort, 8080);
  assertStringIncludes(a?.args ?? "", "K8S_POD_UID=uid1");
  assertStringIncludes(
    node.plugins.logged,
    "Tearing down without the pod's annotations",
  );
});

Deno.test("tearDownPod() detaches from the network of the set-up", async (t) => {
  const rows: [name: string, change: (node: TestNode) => void][] = [
    [
      "when another is the default",
      (node) => node.addNetwork("05-net0.conflist", ["b"], { name: "net0" }),
    ],
    [
      "when it has other plugins",
      (node) => node.addNetwork("10-net1.conflist", ["b"]),
    ],
    [
      "when its file is broken",
      (node) => node.writeConf("10-net1.conflist", "{"),
    ],
    [
      "when its file is gone",
      (node) => Deno.removeSync(`${node.conf.path}/10-net1.conflist`),
    ],
  ];
  await eachRow(t, rows, async ([, change]) => {
    using node = nodeOf();
    await node.network.setUpPod(node.pod());
    change(node);
    await node.network.tearDownPod(node.pod());
    assertEquals(since(node, 3), ["b DEL", "a DEL", "loopback DEL"]);
    assertEquals(node.plugins.cached, []);
  });
});

Deno.test("tearDownPod() runs the plugins that exist", async () => {
  using node = nodeOf();
  await Deno.remove(`${node.plugins.directory.path}/b`);
  const error = await failureOf(node.network.tearDownPod(node.pod()));
  assertStringIncludes(`${error}`, 'failed to find plugin "b"');
  assertEquals(node.story, ["a DEL", "loopback DEL"]);
});

Deno.test("tearDownPod() only logs that the loopback could not be removed", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  node.addPlugin("loopback", { DEL: "exit 3" });
  await node.network.tearDownPod(node.pod());
  assertEquals(node.plugins.cached, ["cni-loopback-c1-lo"]);
  assertStringIncludes(node.plugins.logged, "Cannot bring down the loopback");
});

Deno.test("tearDownPod() reports all failures, and can be retried", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  node.addPlugin("a", { DEL: `echo '{"code":101,"msg":"one"}'; exit 1` });
  node.addPlugin("b", { DEL: `echo '{"code":102,"msg":"two"}'; exit 1` });
  const error = await failureOf(node.network.tearDownPod(node.pod()));
  assertEquals(
    describeError(error).slice(0, 67),
    'networkPlugin cni failed to teardown pod "pod1_default" network: Ca',
  );
  assertStringIncludes(`${error}`, 'plugin type="b" failed (delete): two');
  assertStringIncludes(`${error}`, 'plugin type="a" failed (delete): one');
  assertEquals(since(node, 3), ["b DEL", "a DEL", "loopback DEL"]);
  assertEquals(node.plugins.cached, ["net1-c1-eth0"]);
  node.addPlugin("a");
  node.addPlugin("b");
  await node.network.tearDownPod(node.pod());
  assertEquals(node.plugins.cached, []);
});

Deno.test("tearDownPod() fails without a cached attachment and a default network", async () => {
  using node = new TestNode();
  const error = await failureOf(node.network.tearDownPod(node.pod()));
  assertEquals(error.code, 50);
  assertStringIncludes(`${error}`, "network: cni config uninitialized: ");
  assertEquals(node.story, ["loopback DEL"]);
});

Deno.test("tearDownPod() continues without a lock on a read-only disk", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  const locks = `${node.plugins.cacheDir}/locks`;
  await Deno.remove(locks, { recursive: true });
  await Deno.writeTextFile(locks, "");
  await node.network.tearDownPod(node.pod());
  assertStringIncludes(node.plugins.logged, "Continuing without the lock");
  assertEquals(node.plugins.cached, []);
});
