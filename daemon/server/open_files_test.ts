import { assertEquals } from "@std/assert";
import { limitByOpenFiles } from "./open_files.ts";

Deno.test("limitByOpenFiles() divides a process's limit of open files", async (t) => {
  const wanted = {
    maxConnections: 5000,
    maxStateConnections: 64,
    maxCalls: 64,
    maxBegun: 512,
  };
  const rows: [
    free: number,
    maxConnections: number,
    maxStateConnections: number,
    maxCalls: number,
    maxBegun: number,
  ][] = [
    [Infinity, 5000, 64, 64, 512],
    [65_000, 5000, 64, 64, 512],
    [1000, 187, 62, 64, 75],
    [500, 93, 31, 37, 37],
    [20, 3, 1, 1, 1],
    [-3, 1, 1, 1, 1],
  ];
  for (const [free, ...bounds] of rows) {
    await t.step(`${free}`, () => {
      const [maxConnections, maxStateConnections, maxCalls, maxBegun] = bounds;
      assertEquals(limitByOpenFiles(wanted, free), {
        maxConnections,
        maxStateConnections,
        maxCalls,
        maxBegun,
      });
    });
  }
  const least = {
    maxConnections: 1,
    maxStateConnections: 1,
    maxCalls: 1,
    maxBegun: 1,
  };
  assertEquals(limitByOpenFiles(least), least);
});
