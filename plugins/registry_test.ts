import { assertEquals } from "@std/assert";
import { findPlugin, findVersions, pluginNames } from "./registry.ts";
import { testRows } from "../tests/_harness/table.ts";

testRows("findVersions() lists the plugin's", pluginNames, async (type) => {
  assertEquals(findVersions(type), (await findPlugin(type))?.versions);
});

Deno.test("findVersions() returns undefined for an unknown type", () => {
  for (const type of ["", "noop", "toString"]) {
    assertEquals(findVersions(type), undefined);
  }
});
