import { assertEquals, assertThrows } from "@std/assert";
import { testRows } from "../../../tests/_harness/table.ts";
import { ROOT } from "../../compile/project.ts";
import {
  parseTables,
  putValues,
  replaceSections,
  shortenTables,
  updatePerformance,
  updateReadme,
} from "./figures.ts";

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

Deno.test("shortenTables() keeps the rows and columns that pages quote", () => {
  const page = [
    "## a",
    "",
    "| step | who | wall ms | quartiles | wall/go | quartiles | CPU/go |",
    "| ---- | --- | ------: | --------- | ------: | --------- | -----: |",
    "| ADD | ours | 2 | 1-3 | 0.5 | 0.4-0.6 | 0.7 |",
    "| ADD ptp | ours | 1 | 1-1 | 0.5 | 0.4-0.6 | 0.7 |",
    "| CHECK | ours | 1 | 1-1 | 0.5 | 0.4-0.6 | 0.7 |",
    "| DEL, all at once | go | 3 | 1-3 | | | |",
    "| VERSION ptp | go | 4 | 3-5 | | | |",
    "",
    "text | with a bar",
  ].join("\n");
  assertEquals(
    shortenTables(page),
    [
      "## a",
      "",
      "| step | who | wall ms | quartiles | wall/go |",
      "| ---- | --- | ------: | --------- | ------: |",
      "| ADD | ours | 2 | 1-3 | 0.5 |",
      "| DEL, all at once | go | 3 | 1-3 |  |",
      "| VERSION ptp | go | 4 | 3-5 |  |",
      "",
      "text | with a bar",
    ].join("\n"),
  );
});
