import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
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

Deno.test("the growth has a place on both pages, filled once it was measured", () => {
  const results = read("scripts/measure/bench/results.txt");
  const heading =
    "pod (ptp, bandwidth, sbr), masquerade, with other containers";
  const row = (step: string, who: string): string =>
    `| ${step} | ${who} | 7.0 | 8.4 (1.20) |`;
  const lines = ["ours daemon", "ours", "go"]
    .flatMap((who) => ["ADD", "DEL"].map((step) => row(step, who)));
  const section = `## ${heading}\n\n| step | who | 0 | 1000 |
| --- | --- | --: | --: |
${lines.join("\n")}`;
  const tables = parseTables(replaceSections(results, section));
  assertStringIncludes(
    updateReadme(read("README.md"), tables),
    "an ADD with masquerade takes 8 ms, and 8 ms with the Go plugins",
  );
  assertStringIncludes(
    updatePerformance(read("docs/performance.md"), tables),
    "| 1000 | 8.4 (1.20) | 8.4 (1.20) |",
  );
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
