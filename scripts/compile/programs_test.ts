import { assertEquals, assertRejects } from "@std/assert";
import { pluginNames } from "../../plugins/registry.ts";
import { listSinglePrograms } from "./programs.ts";

Deno.test("listSinglePrograms() finds every plugin", async () => {
  const programs = await listSinglePrograms();
  assertEquals(
    programs.map(({ name }) => name),
    pluginNames,
  );
});

Deno.test("listSinglePrograms() finds where a plugin starts", async () => {
  assertEquals(await listSinglePrograms(["ptp"]), [
    { name: "ptp", entry: "plugins/ptp/main.ts", links: [], handsOver: true },
  ]);
  await assertRejects(
    () => listSinglePrograms(["no-such"]),
    Error,
    'Cannot compile plugin "no-such": there is no plugins/no_such ' +
      "and no ipam/no_such",
  );
});
