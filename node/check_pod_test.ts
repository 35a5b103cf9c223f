import { assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { CheckNotSupportedError } from "../libcni/mod.ts";
import { TestNode } from "./testing.ts";
import { PodNetworkError } from "./pod_network_error.ts";

function nodeOf(keys: Readonly<Record<string, unknown>> = {}): TestNode {
  const node = new TestNode();
  node.addPlugin("a");
  node.addNetwork("10-net1.conflist", ["a"], keys);
  return node;
}

async function failureOf(node: TestNode): Promise<PodNetworkError> {
  const operation = node.network.checkPod(node.pod());
  return await assertRejects(() => operation, PodNetworkError);
}

Deno.test("checkPod() checks with what the pod was set up with", async () => {
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

Deno.test("checkPod() throws what a plugin finds wrong", async () => {
  using node = nodeOf();
  await node.network.setUpPod(node.pod());
  node.addPlugin("a", { CHECK: `echo '{"code":103,"msg":"gone"}'; exit 1` });
  const error = await failureOf(node);
  assertEquals([error.code, `${error}`], [
    103,
    'networkPlugin cni failed to check pod "pod1_default" network: gone',
  ]);
});

Deno.test("checkPod() says that the network's version has no CHECK", async () => {
  using node = nodeOf({ cniVersion: "0.3.1" });
  node.addPlugin("a", {
    ADD:
      `echo '{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.1.2.3/24"}]}'`,
  });
  await node.network.setUpPod(node.pod());
  assertInstanceOf((await failureOf(node)).cause, CheckNotSupportedError);
});

Deno.test("checkPod() refuses a pod that is attached to nothing", async () => {
  using node = nodeOf();
  const error = await failureOf(node);
  assertEquals([error.code, node.story], [3, []]);
});
