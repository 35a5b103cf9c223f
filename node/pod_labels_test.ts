import { assertEquals, assertStrictEquals } from "@std/assert";
import { type NetworkConfList, parseNetworkConfList } from "../libcni/mod.ts";
import { withLabels } from "./pod_labels.ts";

function listOf(...plugins: unknown[]): NetworkConfList {
  const document = { cniVersion: "1.0.0", name: "net1", plugins };
  return parseNetworkConfList(
    new TextEncoder().encode(JSON.stringify(document)),
  );
}

Deno.test("withLabels() leaves a network without labels as it is", () => {
  const list = listOf({ type: "a" });
  assertStrictEquals(withLabels(list), list);
  assertStrictEquals(withLabels(list, {}), list);
});

Deno.test("withLabels() tells every plugin, beside what it is told already", () => {
  const list = listOf(
    { type: "a" },
    { type: "b", args: { x: 1, cni: { ips: ["10.1.2.3"], labels: [] } } },
  );
  const labelled = withLabels(list, { app: "web", "a/b": "" });
  const labels = [{ key: "app", value: "web" }, { key: "a/b", value: "" }];
  assertEquals(labelled.plugins.map(({ document }) => document), [
    { type: "a", args: { cni: { labels } } },
    { type: "b", args: { x: 1, cni: { ips: ["10.1.2.3"], labels } } },
  ]);
});

Deno.test("withLabels() has the labels in the document that is cached", () => {
  const labelled = withLabels(listOf({ type: "a" }), { app: "web" });
  assertEquals(parseNetworkConfList(labelled.bytes), labelled);
  assertEquals([labelled.name, labelled.cniVersion], ["net1", "1.0.0"]);
});
