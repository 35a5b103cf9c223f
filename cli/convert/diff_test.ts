import { assertEquals } from "@std/assert";
import { chooseStyle } from "../../base/command_line/style.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { diffLines, formatDiff } from "./diff.ts";

testRows(
  "diffLines() marks what is added and removed",
  [
    ["nothing", "a\nb\n", "a\nb\n", " a| b"],
    ["a change", "a\nb\nc\n", "a\nx\nc\n", " a|-b|+x| c"],
    ["an addition", "a\nc", "a\nb\nc", " a|+b| c"],
    ["a removal", "a\nb\nc", "c", "-a|-b| c"],
    ["everything", "a", "b", "-a|+b"],
  ],
  ([, before, after, expected]: [string, string, string, string]) =>
    assertEquals(
      diffLines(before, after).map(({ mark, line }) => mark + line).join("|"),
      expected,
    ),
);

Deno.test("formatDiff() shows changes with their context", () => {
  const before = Array.from({ length: 12 }, (_, index) => `${index}`);
  const after = before.with(6, "x");
  const lines = diffLines(before.join("\n"), after.join("\n"));
  assertEquals(
    formatDiff("f", lines, chooseStyle(false)),
    "f\n 3\n 4\n 5\n-6\n+x\n 7\n 8\n 9\n…",
  );
  assertEquals(formatDiff("f", diffLines("a", "a"), chooseStyle(false)), "");
});
