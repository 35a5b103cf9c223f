import { assertEquals } from "@std/assert";
import { findCycle, parseModuleInfo } from "./import_cycles.ts";
import { eachRow } from "../tests/_harness/table.ts";

Deno.test("findCycle() returns a cycle from where it begins", async (t) => {
  const rows: [string, Record<string, string[]>, string[] | undefined][] = [
    ["nothing", {}, undefined],
    ["a chain", { a: ["b"], b: ["c"], c: [] }, undefined],
    ["a diamond", { a: ["b", "c"], b: ["d"], c: ["d"], d: [] }, undefined],
    ["an unknown module", { a: ["zod"] }, undefined],
    ["itself", { a: ["a"] }, ["a", "a"]],
    ["a pair", { a: ["b"], b: ["a"] }, ["a", "b", "a"]],
    [
      "a ring behind a chain",
      { a: ["b"], b: ["c"], c: ["d"], d: ["b"] },
      ["b", "c", "d", "b"],
    ],
    [
      "a ring beside others",
      { a: [], b: ["a"], c: ["b", "d"], d: ["a", "c"] },
      ["c", "d", "c"],
    ],
  ];
  await eachRow(t, rows, ([, graph, cycle]) => {
    assertEquals(findCycle(new Map(Object.entries(graph))), cycle);
  });
});

Deno.test("parseModuleInfo() reads imports of values and of types", () => {
  const json = JSON.stringify({
    modules: [
      {
        specifier: "file:///a.ts",
        dependencies: [
          { specifier: "./b.ts", code: { specifier: "file:///b.ts" } },
          { specifier: "./c.ts", type: { specifier: "file:///c.ts" } },
          { specifier: "./d.ts", code: { error: "not found" } },
        ],
      },
      { specifier: "file:///b.ts" },
    ],
  });
  assertEquals(
    parseModuleInfo(json),
    new Map([
      ["file:///a.ts", ["file:///b.ts", "file:///c.ts"]],
      ["file:///b.ts", []],
    ]),
  );
});
