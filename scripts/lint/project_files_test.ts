import { assertEquals } from "@std/assert";
import {
  isProduct,
  isTest,
  matchedPart,
  projectPath,
  resolveImport,
} from "./project_files.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("projectPath() is relative to the project, undefined outside", () => {
  const here = decodeURIComponent(new URL(import.meta.url).pathname);
  assertEquals(projectPath(here), "scripts/lint/project_files_test.ts");
  assertEquals(projectPath("/etc/hosts"), undefined);
});

Deno.test("resolveImport() follows relative imports", async (t) => {
  const rows: [path: string, specifier: string, target: string | undefined][] =
    [
      ["net/cidr.ts", "./ip.ts", "net/ip.ts"],
      ["plugins/ptp/plugin.ts", "../../net/ip.ts", "net/ip.ts"],
      ["mod.ts", "./cni/skel.ts", "cni/skel.ts"],
      ["mod.ts", "../elsewhere.ts", undefined],
      ["mod.ts", "/etc/hosts", undefined],
    ];
  await eachRow(t, rows, ([path, specifier, target]) => {
    assertEquals(resolveImport(path, specifier), target);
  }, ([path, specifier]) => `${specifier} in ${path}`);
});

Deno.test("matchedPart() returns the part that the pattern names", async (t) => {
  const rows: [path: string, pattern: string, part: string | undefined][] = [
    ["net/ip.ts", "net/", "net/"],
    ["net/ip.ts", "net/ip.ts", "net/ip.ts"],
    ["net/ip.tsx", "net/ip.ts", undefined],
    ["net/ipxts", "net/ip.ts", undefined],
    ["cni/net/ip.ts", "net/", undefined],
    ["plugins/ptp/plugin.ts", "plugins/*/", "plugins/ptp/"],
    ["plugins/main.ts", "plugins/*/", undefined],
    ["plugins/ptp/a/plugin.ts", "plugins/*/plugin.ts", undefined],
  ];
  await eachRow(t, rows, ([path, pattern, part]) => {
    assertEquals(matchedPart(path, pattern), part);
  }, ([path, pattern]) => `${path} by ${pattern}`);
});

Deno.test("isProduct() and isTest() sort files", async (t) => {
  const rows: [path: string, product: boolean, test: boolean][] = [
    ["net/ip.ts", true, false],
    ["mod.ts", true, false],
    ["libcni.ts", true, false],
    ["testing/mod.ts", false, true],
    ["net/ip_test.ts", false, true],
    ["testing/test_hosts.ts", false, true],
    ["scripts/ci.ts", false, false],
  ];
  await eachRow(t, rows, ([path, product, test]) => {
    assertEquals([isProduct(path), isTest(path)], [product, test]);
  });
});
