import { assertEquals } from "@std/assert";
import {
  filterOf,
  findLacking,
  selectFeatureTests,
  selectKernelPart,
  shareOut,
} from "./select.ts";

const SOURCES: Readonly<Record<string, string>> = {
  "net/ip_test.ts": 'import { Ip } from "./ip.ts";',
  "plugins/ptp/direct_test.ts":
    'import {\n  requireRoot,\n} from "../../testing/capabilities.ts";',
  "tests/indirect_test.ts": 'import { scene } from "./_harness/scene.ts";',
  "tests/_harness/scene.ts": 'export { deep } from "./deep.ts";',
  "tests/_harness/deep.ts":
    'import { needsRoot } from "../../testing/capabilities.ts";',
  "tests/pure_test.ts":
    'import { hasCommand } from "../testing/capabilities.ts";',
  "testing/capabilities.ts": "export const needsRoot = 1;",
  "tests/bench_test.ts":
    'import { requireRoot } from "../testing/capabilities.ts";',
  "scripts/measure/bench/netns_test.ts":
    'import { requireRoot } from "../../../testing/capabilities.ts";',
};

Deno.test("selectKernelPart() finds what needs namespaces, also through modules of tests", () => {
  const files = Object.keys(SOURCES).filter((path) => path.endsWith("_test.ts"))
    .map((path) => ({ path, size: 1 }));
  const part = selectKernelPart(files, (path) => SOURCES[path] ?? "");
  assertEquals(part.map(({ path }) => path), [
    "plugins/ptp/direct_test.ts",
    "tests/indirect_test.ts",
  ]);
});

Deno.test("selectFeatureTests() finds what may skip for the kernel, and runs elsewhere", () => {
  const sources: Readonly<Record<string, string>> = {
    "plugins/vlan/plugin_test.ts": "rootTest(name, needsKind(kind), test)",
    "plugins/vlan/parity_test.ts": "rootTest(name, needsKind(kind), test)",
    "plugins/vlan/stress_test.ts": "rootTest(name, needsKind(kind), test)",
    "plugins/tap/plugin_test.ts": 'import { own } from "./testing.ts";',
    "plugins/tap/testing.ts": "ignoreUnless(success, `needs ${type} links`)",
    "plugins/ptp/plugin_test.ts": "rootTest(name, test)",
  };
  const files = Object.keys(sources).filter((path) => path.endsWith("_test.ts"))
    .map((path) => ({ path, size: 1 }));
  const part = selectFeatureTests(files, (path) => sources[path] ?? "");
  assertEquals(part.map(({ path }) => path), [
    "plugins/vlan/plugin_test.ts",
    "plugins/tap/plugin_test.ts",
  ]);
});

Deno.test("a test is found in another kernel by its name without what it lacks", () => {
  const names: [string, string | undefined][] = [
    ["BR-5 VLAN 1/2 (skipped: needs a kernel with vlan)", "BR-5 VLAN 1/2"],
    ["a (skipped: needs dummy links) (skipped: needs luck)", "a"],
    ["a (skipped: needs root)", undefined],
    ["a", undefined],
  ];
  assertEquals(names.map(([name]) => [name, findLacking(name)]), names);
  assertEquals(
    filterOf(["a (b), 1.1.0", "c/d"]),
    String.raw`/^(?:a \(b\), 1\.1\.0|c\/d)/`,
  );
});

Deno.test("shareOut() gives all kernels about as much", () => {
  const files = [3, 9, 5, 4].map((size) => ({ path: `${size}`, size }));
  const share = (parts: number, given = files): string[] =>
    shareOut(given, parts).map((one) => one.map(({ path }) => path).join(" "));
  assertEquals(share(1), ["9 5 4 3"]);
  assertEquals(share(2), ["9 3", "5 4"]);
  assertEquals(share(5), ["9", "5", "4", "3"]);
  assertEquals(share(2, []), [""]);
});
