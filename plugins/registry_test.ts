import { assertEquals } from "@std/assert";
import { findPlugin, findVersions, pluginNames } from "./registry.ts";

Deno.test("findVersions() lists what the plugin itself lists", async (t) => {
  for (const type of pluginNames) {
    await t.step(type, async () => {
      assertEquals(findVersions(type), (await findPlugin(type))?.versions);
    });
  }
});

Deno.test("findVersions() finds nothing for what is no plugin of ours", () => {
  for (const type of ["", "noop", "toString"]) {
    assertEquals(findVersions(type), undefined);
  }
});
