import {
  assert,
  assertEquals,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import { describeError } from "../base/error.ts";
import { testRows } from "../tests/_harness/table.ts";
import { ADD, TestNode } from "./testing.ts";
import { PodNetworkError } from "./pod.ts";
import { type NetworkConfList, parseNetworkConfList } from "../libcni/mod.ts";
import { withLabels } from "./set_up.ts";

/** A node with one network of the plugins `a` and `b`. */
function nodeOf(keys: Readonly<Record<string, unknown>> = {}): TestNode {
  const node = new TestNode();
  node.addPlugin("a");
  node.addPlugin("b");
  node.addNetwork("10-net1.conflist", [{ type: "a", ...keys }, "b"]);
  return node;
}

async function failureOf(
  operation: Promise<unknown>,
): Promise<PodNetworkError> {
  return await assertRejects(() => operation, PodNetworkError);
}

Deno.test("setUpPod() attaches to the loopback, then to the default network", async () => {
  using node = nodeOf();
  const pod = node.pod();
  const { network, ip, ips, result, document } = await node.network.setUpPod(
    pod,
  );
  assertEquals(node.story, ["loopback ADD", "a ADD", "b ADD"]);
  assertEquals([network, `${ip}`, ips.length], ["net1", "10.1.2.3", 1]);
  assertEquals(result.interfaces[0]?.name, "eth0");
  assertEquals(document["cniVersion"], "1.1.0");
  assertEquals(node.plugins.cached, ["cni-loopback-c1-lo", "net1-c1-eth0"]);
});

Deno.test("setUpPod() passes the pod's names to plugins", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  const calls = node.plugins.calls.filter(({ command }) => command === "ADD");
  const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=pod1;" +
    "K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=uid1";
  assertEquals(calls.map(({ args }) => args), [args, args, args]);
  assertEquals(calls.map(({ ifName }) => ifName), ["lo", "eth0", "eth0"]);
  assertEquals(calls.map(({ containerId }) => containerId), ["c1", "c1", "c1"]);
  assertEquals(calls[1]?.netns, "/run/netns/no-such-namespace");
});

Deno.test("setUpPod() gives a plugin the capabilities that it declares", async () => {
  using node = nodeOf({
    capabilities: {
      portMappings: true,
      "io.kubernetes.cri.pod-annotations": true,
      ipRanges: true,
      dns: false,
    },
  });
  const network = node.restart({ podCidr: "10.1.2.0/24,fd00::/64" });
  await network.setUpPod(node.pod({
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "TCP" }],
    annotations: { a: "b" },
    dns: { servers: ["10.0.0.10"] },
  }));
  const [a, b] = node.plugins.calls.filter(({ command, type }) =>
    command === "ADD" && type !== "loopback"
  );
  assertEquals(a?.stdin.runtimeConfig, {
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    ipRanges: [[{ subnet: "10.1.2.0/24" }], [{ subnet: "fd00::/64" }]],
    "io.kubernetes.cri.pod-annotations": { a: "b" },
  });
  assertEquals(b?.stdin.runtimeConfig, undefined);
});

Deno.test("setUpPod() passes the pod's labels to plugins, including on DEL", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod({ labels: { app: "web" } }));
  await node.network.tearDownPod(node.pod());
  const labels = node.plugins.calls.filter(({ type }) => type === "a")
    .filter(({ command }) => command !== "VERSION")
    .map(({ command, stdin }) => [command, stdin.args.cni.labels]);
  const expected = [{ key: "app", value: "web" }];
  assertEquals(labels, [["ADD", expected], ["DEL", expected]]);
});

Deno.test("setUpPod() skips the loopback if configured", async () => {
  using node = nodeOf();
  const network = node.restart({ loopback: false });
  await network.setUpPod(node.pod());
  assertEquals(node.story, ["a ADD", "b ADD"]);
});

Deno.test("setUpPod() undoes everything when a plugin fails half-way", async () => {
  using node = nodeOf();
  node.addPlugin("b", {
    ADD: `echo '{"code":11,"msg":"busy","details":"later"}'; exit 1`,
  });
  const error = await failureOf(node.network.setUpPod(node.pod()));
  assertEquals(
    `${error}`,
    'networkPlugin cni failed to set up pod "pod1_default" network: ' +
      'plugin type="b" failed (add): busy: later',
  );
  assertEquals(error.code, 11);
  assertEquals(node.story, [
    "loopback ADD",
    "a ADD",
    "b ADD",
    "b DEL",
    "a DEL",
    "loopback DEL",
  ]);
  assertEquals(node.plugins.cached, []);
});

Deno.test("setUpPod() undoes the loopback when that fails", async () => {
  using node = nodeOf();
  node.addPlugin("loopback", { ADD: "exit 1" });
  await failureOf(node.network.setUpPod(node.pod()));
  assertEquals(node.story, ["loopback ADD", "loopback DEL"]);
});

Deno.test("setUpPod() undoes everything if the pod has no address afterwards", async () => {
  using node = nodeOf();
  node.addPlugin("b", { ADD: ADD.replace("eth0", "eth7") });
  const error = await failureOf(node.network.setUpPod(node.pod()));
  assertEquals(
    `${error}`,
    'networkPlugin cni failed to set up pod "pod1_default" network: ' +
      'failed to find network info for sandbox "c1": ' +
      'the result of network "net1" has no IP address of "eth0"',
  );
  assertEquals(node.story.slice(-3), ["b DEL", "a DEL", "loopback DEL"]);
  assertEquals(node.plugins.cached, []);
});

Deno.test("setUpPod() undoes a set-up past its deadline with a new deadline", async () => {
  using node = nodeOf();
  node.addPlugin("b", { ADD: "exec sleep 60" });
  // Who needs to be asked for versions first might miss it before.
  await node.network.status();
  const error = await failureOf(
    node.network.setUpPod(node.pod(), { timeoutMs: 1_000 }),
  );
  assertStringIncludes(
    `${error}`,
    "netplugin failed with no error message: signal: killed",
  );
  assertEquals(node.story.slice(-3), ["b DEL", "a DEL", "loopback DEL"]);
});

Deno.test("setUpPod() logs a failed undo, and throws the original error", async () => {
  using node = nodeOf();
  node.addPlugin("a", { DEL: "exit 4" });
  node.addPlugin("b", { ADD: "exit 3" });
  const error = await failureOf(node.network.setUpPod(node.pod()));
  assertStringIncludes(`${error}`, "exit status 3");
  assertStringIncludes(node.plugins.logged, "exit status 4");
  assertEquals(node.story.slice(-2), ["a DEL", "loopback DEL"]);
});

Deno.test("setUpPod() refuses an attached pod, and does not change it", async (t) => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  const before = node.story.length;
  const again = async (): Promise<void> => {
    const error = await failureOf(node.network.setUpPod(node.pod()));
    assertEquals(error.code, 4);
    assertStringIncludes(
      `${error}`,
      'Cannot set up container "c1": it is attached to network "net1" as "eth0"',
    );
    assertEquals(node.story.length, before);
  };
  await t.step("to the same network", again);
  await t.step("to a former default network", async () => {
    node.addNetwork("05-net0.conflist", ["a"], { name: "net0" });
    await again();
  });
  await t.step("until the pod is torn down", async () => {
    await node.network.tearDownPod(node.pod());
    assertEquals((await node.network.setUpPod(node.pod())).network, "net0");
  });
});

Deno.test("setUpPod() continues after an agent died that had set up the loopback", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  await Deno.remove(`${node.plugins.cacheDir}/results/net1-c1-eth0`);
  await node.restart().setUpPod(node.pod());
  assertEquals(node.plugins.cached, ["cni-loopback-c1-lo", "net1-c1-eth0"]);
});

testRows("setUpPod() runs no plugin for invalid input", [
  ["a bad container ID", { containerId: "a/b" }, 4],
  ["no container ID", { containerId: "" }, 4],
  ["a name that is two arguments", { name: "a;b" }, 4],
  ["the host's namespace", { netns: "/proc/thread-self/ns/net" }, 8],
  ["an absurd bandwidth", {
    annotations: { "kubernetes.io/ingress-bandwidth": "1" },
  }, 7],
], async ([, keys, code]: [string, Parameters<TestNode["pod"]>[0], number]) => {
  using node = nodeOf();
  const error = await failureOf(node.network.setUpPod(node.pod(keys)));
  assertEquals([error.code, node.story], [code, []]);
});

Deno.test("setUpPod() fails without a network", async () => {
  using node = new TestNode();
  const error = await failureOf(node.network.setUpPod(node.pod()));
  assertEquals(error.code, 50);
  assert(describeError(error.cause).startsWith("cni config uninitialized"));
  assertEquals(node.story, []);
});

function listOf(...plugins: unknown[]): NetworkConfList {
  const document = { cniVersion: "1.0.0", name: "net1", plugins };
  return parseNetworkConfList(
    new TextEncoder().encode(JSON.stringify(document)),
  );
}

Deno.test("withLabels() does not change a network without labels", () => {
  const list = listOf({ type: "a" });
  assertStrictEquals(withLabels(list), list);
  assertStrictEquals(withLabels(list, {}), list);
});

Deno.test("withLabels() adds labels to the args of every plugin", () => {
  const list = listOf(
    { type: "a" },
    { type: "b", args: { x: 1, cni: { ips: ["10.1.2.3"], labels: [] } } },
    { type: "c", Args: { x: 1 } },
  );
  const labelled = withLabels(list, { app: "web", "a/b": "" });
  const labels = [{ key: "app", value: "web" }, { key: "a/b", value: "" }];
  assertEquals(labelled.plugins.map(({ document }) => document), [
    { type: "a", args: { cni: { labels } } },
    { type: "b", args: { x: 1, cni: { ips: ["10.1.2.3"], labels } } },
    { type: "c", args: { x: 1, cni: { labels } } },
  ]);
});

Deno.test("withLabels() writes the labels to the cached document", () => {
  const labelled = withLabels(listOf({ type: "a" }), { app: "web" });
  assertEquals(parseNetworkConfList(labelled.bytes), labelled);
  assertEquals([labelled.name, labelled.cniVersion], ["net1", "1.0.0"]);
});
