import { assertEquals } from "@std/assert";
import { findPlugin, findVersions, pluginNames } from "./registry.ts";
import { testRows } from "../tests/_harness/table.ts";

testRows("findVersions() lists the plugin's", pluginNames, async (type) => {
  assertEquals(findVersions(type), (await findPlugin(type))?.versions);
});

Deno.test("findVersions() finds nothing for what is not a plugin of ours", () => {
  for (const type of ["", "noop", "toString"]) {
    assertEquals(findVersions(type), undefined);
  }
});
