import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import {
  describeGrowth,
  drawGrowth,
  formatGrowth,
  writeGrowth,
} from "./growth.ts";
import type { Row } from "./summary.ts";
import { sampleReport, sampleRow, spreadOf } from "./testing.ts";

/** ADD and DEL of all contestants on the pages, beside 0 and 1 000 containers. */
const ROWS: readonly Row[] = [
  ...([["ours daemon", 10], ["ours", 100], ["go", 40]] as const).flatMap(
    ([who, ms]) =>
      ["ADD", "DEL"].flatMap((step) =>
        [0, 1000].map((containers) => {
          const wallMs = spreadOf(containers === 0 ? ms : 1.5 * ms);
          return sampleRow({ step, who, containers, wallMs });
        })
      ),
  ),
  sampleRow({ who: "ours chain", containers: 0 }),
];

Deno.test("formatGrowth() compares each contestant with itself on an empty node", () => {
  assertEquals(
    formatGrowth(ROWS.filter(({ who }) => who !== "ours")),
    `| containers | ADD | ADD, Go plugins | DEL | DEL, Go plugins |
| --- | --: | --: | --: | --: |
| 0 | 10.0 | 40.0 | 10.0 | 40.0 |
| 1 000 | 15.0 (1.50) | 60.0 (1.50) | 15.0 (1.50) | 60.0 (1.50) |`,
  );
});

Deno.test("describeGrowth() is a sentence about 1 000 containers", () => {
  assertEquals(
    describeGrowth(ROWS),
    "With 1 000 containers on the node, ADD with masquerade takes 15 ms " +
      "(Go plugins: 60 ms), and DEL takes 15 ms (Go plugins: 60 ms).",
  );
});

Deno.test("drawGrowth() draws a line for each step of each contestant", () => {
  const found = drawGrowth(ROWS).match(/<polyline/g) ?? [];
  assertEquals(found.length, 6);
});

Deno.test("writeGrowth() rewrites its part of the pages, and nothing else", async () => {
  const root = `${await Deno.makeTempDir()}/`;
  try {
    await Deno.mkdir(`${root}docs`);
    const page = "a\n\n<!-- growth -->\n\nold\n\n<!-- end -->\n\nb\n";
    await Deno.writeTextFile(`${root}README.md`, page);
    const write = (): Promise<string[]> =>
      writeGrowth(root, sampleReport(ROWS));
    await Deno.writeTextFile(`${root}docs/performance.md`, "no part\n");
    await assertRejects(write, Error, '"<!-- growth -->"');
    await Deno.writeTextFile(`${root}docs/performance.md`, page);
    const names = ["docs/performance.md", "README.md", "docs/growth.svg"];
    assertEquals(await write(), names.map((name) => root + name));
    const [table = "", readme = "", image = ""] = names
      .map((name) => Deno.readTextFileSync(root + name));
    assertMatch(
      table,
      /^a\n\n<!-- growth -->\n\nMedian [^]*\| 1 000 +\|[^]*<!-- end -->\n\nb\n$/,
    );
    assertMatch(
      readme,
      /^a\n\n<!-- growth -->\n\nWith 1 000 [^]*<!-- end -->\n\nb\n$/,
    );
    assertMatch(image, /^<svg /);
    await write();
    assertEquals(await Deno.readTextFile(`${root}README.md`), readme);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
