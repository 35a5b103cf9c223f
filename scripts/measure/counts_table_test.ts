import { assertEquals, assertThrows } from "@std/assert";
import type { TracedCalls } from "../../tests/_harness/traced_calls.ts";
import { formatRow, replaceRows } from "./counts_table.ts";

function traced(count: number, bytes: number, programs = 0): TracedCalls {
  const programBytes = programs * 10_000;
  // A program's pipe is read now and then.
  const calls = { read: programs };
  return { calls, count: count + programs, bytes, programs, programBytes };
}

const COLUMNS = {
  title: "calls",
  names: ["a", "b"],
  levels: [3, 250, 1000],
};

Deno.test("formatRow() shows what grows, and what each stale container costs", () => {
  const costs: Readonly<Record<string, TracedCalls>> = {
    "ADD 3": traced(90, 1800),
    "ADD 1000": traced(95, 61_234),
    "CHECK 3": traced(50, 2000),
    "CHECK 1000": traced(70, 2100),
    "DEL 3": traced(40, 1500, 2),
    "DEL 1000": traced(40, 1600, 2),
    "GC 3": traced(60, 400),
    "GC 1000": traced(120, 1_628_000),
    "GC of all 1000": traced(12_000, 5_000_000, 3),
  };
  const none = traced(0, 0);
  assertEquals(
    formatRow(
      "a",
      (command, others) => costs[`${command} ${others}`] ?? none,
      [3, 1000],
      [3, 1000],
    ),
    "| a | 95, 1.8 to 61.2 | 50 to 70, 2.1 | 40, 1.6 + 2, 20.0 | 60, 0.4 | " +
      "120, 1 628 | 12, 5.0 + 3 for all, 0.0 |",
  );
});

Deno.test("formatRow() says where fewer were measured", () => {
  const row = formatRow("a", () => traced(600, 6000), [3, 250, 600], [
    3,
    250,
    1000,
  ]);
  assertEquals(
    row,
    "| a | 600, 6.0 | 600, 6.0 | 600, 6.0 | 600, 6.0 | 600, 6.0 | " +
      "600, 6.0 (600) | 1, 0.0 (600) |",
  );
});

Deno.test("replaceRows() keeps the rows of other networks, and sorts them", () => {
  const page = "x\n\n<!-- some -->\n\n| head | 1 |\n| --- | --- |\n" +
    "| b | old |\n| gone | old |\n\n<!-- end -->\n\ny\n\n<!-- end -->\n";
  const head = "| calls | ADD | CHECK | DEL | GC with 3 | " +
    "with 250 | with 1 000 | GC of 1 000, for each |\n" +
    "| --- | --: | --: | --: | --: | --: | --: | --: |\n";
  assertEquals(
    replaceRows(page, "some", ["| a | new |"], COLUMNS),
    `x\n\n<!-- some -->\n\n${head}| a | new |\n| b | old |\n\n<!-- end -->\n\n` +
      "y\n\n<!-- end -->\n",
  );
  assertEquals(
    replaceRows(page, "some", ["| b | new |"], COLUMNS).includes("old"),
    false,
  );
});

Deno.test("replaceRows() refuses a page without the table", () => {
  assertThrows(() => replaceRows("x", "some", [], COLUMNS), Error, '"some"');
});
