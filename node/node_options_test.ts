import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { createNode, parsePodCidrs } from "./node_options.ts";
import { testRows } from "../tests/_harness/table.ts";

testRows<[string[], string[]]>("parsePodCidrs() reads networks", [
  [[], []],
  [["", " "], []],
  [["10.1.2.0/24", " fd00::/64"], ["10.1.2.0/24", "fd00::/64"]],
  [["10.1.2.9/24"], ["10.1.2.0/24"]],
], ([texts, cidrs]) => {
  assertEquals(parsePodCidrs(texts).map(String), cidrs);
}, ([texts]) => JSON.stringify(texts));

Deno.test("parsePodCidrs() refuses invalid PodCIDRs", () => {
  const error = assertThrows(() => parsePodCidrs(["10.1.2.3"]), CniError);
  assertEquals(
    [error.code, `${error}`],
    [7, 'Cannot use PodCIDR "10.1.2.3"; invalid CIDR address: 10.1.2.3'],
  );
});

Deno.test("createNode() logs to the same file as plugins", () => {
  let logged = "";
  const node = createNode({
    confDir: "/a",
    pluginDirs: ["/b"],
    env: {},
    onStderr: (text) => void (logged += text),
  }, () => []);
  node.log.warn("hello");
  assertStringIncludes(logged, "component=node-network msg=hello");
  assertEquals([node.confDir, node.loopback?.name], ["/a", "cni-loopback"]);
});
