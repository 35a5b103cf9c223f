import { assertEquals, assertThrows } from "@std/assert";
import { testRows } from "../../../tests/_harness/table.ts";
import { ROOT } from "../../compile/project.ts";
import {
  formatSections,
  parseTables,
  putValues,
  replaceSections,
  updatePerformance,
  updateReadme,
} from "./figures.ts";
import { sampleRow } from "./testing.ts";

const read = (file: string): string => Deno.readTextFileSync(`${ROOT}${file}`);

/** Without what `deno fmt` decides. */
function squeeze(text: string): string {
  return text.replaceAll(/-{3,}/g, "--").replaceAll(/\s+/g, " ");
}

testRows("the figures of a page are those of results.txt", [
  ["README.md", updateReadme],
  ["docs/performance.md", updatePerformance],
], ([file, update]) => {
  const page = read(file);
  const tables = parseTables(read("scripts/measure/bench/results.txt"));
  assertEquals(squeeze(update(page, tables)), squeeze(page));
});

Deno.test("putValues() finds a sentence over lines, and refuses a page without it", () => {
  const page = "It takes\n12 ms, and\n  3.5 s.";
  const sentence = "It takes # ms, and # s.";
  assertEquals(
    putValues(page, sentence, ["7", "8"]),
    "It takes\n7 ms, and\n  8 s.",
  );
  assertThrows(() => putValues("It took 1 ms", sentence, ["7", "8"]));
});

Deno.test("replaceSections() keeps what was not measured again", () => {
  const page = "# Title\n\nText.\n\n## a\n\nold a\n\n## b\n\nold b\n";
  const other = "# Other\n\n- machine\n\n## b\n\nnew b\n\n## c\n\nnew c\n";
  assertEquals(
    replaceSections(page, other),
    "# Title\n\nText.\n\n## a\n\nold a\n\n## b\n\nnew b\n\n## c\n\nnew c\n",
  );
});

Deno.test("formatSections() leaves out CPU time", () => {
  const ratio = { to: "go", median: 0.5 };
  const rows = ["ADD", "DEL, all at once", "VERSION ptp"]
    .map((step) => sampleRow({ step, ratio }));
  assertEquals(
    formatSections(rows),
    `## ptp, 0 containers

| step             | who  | wall ms | quartiles | wall/go |
| ---------------- | ---- | ------: | --------- | ------: |
| ADD              | ours |    25.0 | 24.0-26.5 |    0.50 |
| DEL, all at once | ours |    25.0 | 24.0-26.5 |    0.50 |
| VERSION ptp      | ours |    25.0 | 24.0-26.5 |    0.50 |`,
  );
});
