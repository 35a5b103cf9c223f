import { assertEquals } from "@std/assert";
import { limitByOpenFiles } from "./open_files.ts";

Deno.test("limitByOpenFiles() shares out what a process may open", async (t) => {
  const wanted = { maxConnections: 5000, maxCalls: 64 };
  const rows: [free: number, maxConnections: number, maxCalls: number][] = [
    [Infinity, 5000, 64],
    [65_000, 5000, 64],
    [1000, 250, 64],
    [500, 125, 37],
    [20, 5, 1],
    [-3, 1, 1],
  ];
  for (const [free, maxConnections, maxCalls] of rows) {
    await t.step(`${free}`, () => {
      const expected = { maxConnections, maxCalls };
      assertEquals(limitByOpenFiles(wanted, free), expected);
    });
  }
  assertEquals(limitByOpenFiles({ maxConnections: 1, maxCalls: 1 }), {
    maxConnections: 1,
    maxCalls: 1,
  });
});
