import { assertEquals } from "@std/assert";
import {
  isProduct,
  isTest,
  matchedPart,
  projectPath,
  resolveImport,
} from "./project_files.ts";
import { testRows } from "../../tests/_harness/table.ts";

Deno.test("projectPath() is relative to the project, undefined outside", () => {
  const here = decodeURIComponent(new URL(import.meta.url).pathname);
  assertEquals(projectPath(here), "scripts/lint/project_files_test.ts");
  assertEquals(projectPath("/etc/hosts"), undefined);
});

testRows("resolveImport() follows relative imports", [
  ["net/cidr.ts", "./ip.ts", "net/ip.ts"],
  ["plugins/ptp/plugin.ts", "../../net/ip.ts", "net/ip.ts"],
  ["mod.ts", "./cni/skel.ts", "cni/skel.ts"],
  ["mod.ts", "../elsewhere.ts", undefined],
  ["mod.ts", "/etc/hosts", undefined],
], ([path, specifier, target]: [string, string, string | undefined]) => {
  assertEquals(resolveImport(path, specifier), target);
}, ([path, specifier]) => `${specifier} in ${path}`);

testRows("matchedPart() returns the part that the pattern names", [
  ["net/ip.ts", "net/", "net/"],
  ["net/ip.ts", "net/ip.ts", "net/ip.ts"],
  ["net/ip.tsx", "net/ip.ts", undefined],
  ["net/ipxts", "net/ip.ts", undefined],
  ["cni/net/ip.ts", "net/", undefined],
  ["plugins/ptp/plugin.ts", "plugins/*/", "plugins/ptp/"],
  ["main.ts", "plugins/*/", undefined],
  ["plugins/ptp/a/plugin.ts", "plugins/*/plugin.ts", undefined],
], ([path, pattern, part]: [string, string, string | undefined]) => {
  assertEquals(matchedPart(path, pattern), part);
}, ([path, pattern]) => `${path} by ${pattern}`);

testRows<[string, boolean, boolean]>("isProduct() and isTest() sort files", [
  ["net/ip.ts", true, false],
  ["mod.ts", true, false],
  ["libcni.ts", true, false],
  ["testing/mod.ts", false, true],
  ["net/ip_test.ts", false, true],
  ["testing/test_hosts.ts", false, true],
  ["plugins/sbr/testing.ts", false, true],
  ["plugins/multus/testing/scene.ts", false, true],
  ["scripts/ci.ts", false, false],
], ([path, product, test]) => {
  assertEquals([isProduct(path), isTest(path)], [product, test]);
});
