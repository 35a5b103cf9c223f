import { assertEquals } from "@std/assert";
import { eachRow } from "../../tests/_harness/table.ts";
import { findNearest } from "./suggest.ts";

Deno.test("findNearest() finds the closest word", async (t) => {
  const words = [
    "add",
    "check",
    "del",
    "gc",
    "status",
    "list",
    "netns",
    "minID",
  ];
  const rows: [typed: string, meant: string | undefined][] = [
    ["ad", "add"],
    ["dad", "add"],
    ["ADD", "add"],
    ["delete", "del"],
    ["chekc", "check"],
    ["statsu", "status"],
    ["stat", "status"],
    ["lst", "list"],
    ["net", "netns"],
    ["c", "check"],
    ["minid", "minID"],
    ["xyzzy", undefined],
    ["", undefined],
    ["frobnicate", undefined],
  ];
  await eachRow(t, rows, ([typed, meant]) => {
    assertEquals(findNearest(typed, words), meant);
  }, ([typed]) => `"${typed}"`);
  await t.step(
    "among none",
    () => assertEquals(findNearest("a", []), undefined),
  );
});
