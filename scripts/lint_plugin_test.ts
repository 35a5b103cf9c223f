import { assertEquals } from "@std/assert";
import plugin from "./lint_plugin.ts";
import { eachRow } from "../tests/_harness/table.ts";

/** One source per rule that breaks this rule, and no other. */
const SAMPLES: Readonly<Record<string, string>> = {
  "cni/change-checked": 'Deno.removeSync("a");',
  "cni/error-message": 'new Error("Cannot parse it.");',
  "cni/folded-keys": 'document["ipam"];',
  "cni/kernel-is-sync": "inNetns(ns, async () => {});",
  "cni/layers": 'import { open } from "../ffi/file/fd.ts";',
  "cni/netlink-declared": "new DataView(buffer);",
  "cni/no-ambient": "Deno.exit(1);",
  "cni/retired-words": "//leftover",
};

Deno.test("plugin has a sample for every rule", () => {
  const ids = Object.keys(plugin.rules).map((name) => `${plugin.name}/${name}`);
  assertEquals(Object.keys(SAMPLES), ids.toSorted());
});

Deno.test("plugin reports each fault by one rule", async (t) => {
  const filename = decodeURIComponent(
    new URL("../net/ip.ts", import.meta.url).pathname,
  );
  await eachRow(t, Object.entries(SAMPLES), ([id, source]) => {
    const found = Deno.lint.runPlugin(plugin, filename, source);
    assertEquals(found.map((diagnostic) => diagnostic.id), [id]);
  });
});

Deno.test("plugin knows no layers outside the project", () => {
  const source = SAMPLES["cni/layers"] ?? "";
  assertEquals(Deno.lint.runPlugin(plugin, "/elsewhere/net/ip.ts", source), []);
});
