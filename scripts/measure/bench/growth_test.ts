import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import {
  drawGrowth,
  formatGrowth,
  formatReadmeRow,
  writeGrowth,
} from "./growth.ts";
import type { Report } from "./report.ts";
import type { Row } from "./summary.ts";

function makeRow(
  who: string,
  step: string,
  containers: number,
  median: number,
): Row {
  const spread = { median, q1: median, q3: median };
  return {
    ...{ cell: `pod, ${containers} containers`, chain: "pod" },
    ...{ masquerade: true, containers, parallel: 1, step, who, rounds: 3 },
    ...{ wallMs: spread, cpuMs: spread },
  };
}

/** ADD and DEL of all candidates on the pages, beside 0 and 1 000 containers. */
const ROWS: readonly Row[] = [
  ...([["ours daemon", 10], ["ours", 100], ["go", 40]] as const).flatMap(
    ([who, ms]) =>
      ["ADD", "DEL"].flatMap((step) => [
        makeRow(who, step, 0, ms),
        makeRow(who, step, 1000, 1.5 * ms),
      ]),
  ),
  makeRow("ours chain", "ADD", 0, 25),
];

const REPORT: Report = {
  machine: {
    ...{ date: "2026-01-02T03:04Z", kernel: "6.1.0", architecture: "x86_64" },
    ...{ cpu: "Fast One", cpus: 4, memoryMib: 8192, load: 0.25, deno: "2.9.6" },
    versions: { ours: "v1.0.0", go: "v1.1.1" },
  },
  ...{ filter: "", notes: [], rows: ROWS },
};

Deno.test("formatGrowth() compares each candidate with itself on an empty node", () => {
  assertEquals(
    formatGrowth(ROWS.filter(({ who }) => who !== "ours")),
    `| containers | ADD | ADD, Go plugins | DEL | DEL, Go plugins |
| --- | --: | --: | --: | --: |
| 0 | 10.0 | 40.0 | 10.0 | 40.0 |
| 1 000 | 15.0 (1.50) | 60.0 (1.50) | 15.0 (1.50) | 60.0 (1.50) |`,
  );
});

Deno.test("formatReadmeRow() is about 1 000 containers", () => {
  assertEquals(
    formatReadmeRow(ROWS),
    "| ADD, DEL with masquerade, on a node with 1 000 containers | 15 ms, 15 ms | " +
      "150 ms, 150 ms | 60 ms, 60 ms |",
  );
});

Deno.test("drawGrowth() draws a line for each step of each candidate", () => {
  const found = drawGrowth(ROWS).match(/<polyline/g) ?? [];
  assertEquals(found.length, 6);
});

Deno.test("writeGrowth() rewrites its part of the pages, and nothing else", async () => {
  const root = `${await Deno.makeTempDir()}/`;
  try {
    await Deno.mkdir(`${root}docs`);
    const row =
      "| ADD, DEL with masquerade, on a node with 7 containers | 1 | 2 | 3 |";
    const table = `a\n\n| b | c | d | e |\n| - | - | - | - |\n${row}\n`;
    await Deno.writeTextFile(`${root}README.md`, table);
    const write = (): Promise<string[]> => writeGrowth(root, REPORT);
    await Deno.writeTextFile(`${root}docs/performance.md`, "no part\n");
    await assertRejects(write, Error, "<!-- growth -->");
    const page = "a\n\n<!-- growth -->\n\nold\n\n<!-- end -->\n\nb\n";
    await Deno.writeTextFile(`${root}docs/performance.md`, page);
    const names = ["docs/performance.md", "README.md", "docs/growth.svg"];
    assertEquals(await write(), names.map((name) => root + name));
    const [written = "", readme = "", image = ""] = await Promise.all(
      names.map((name) => Deno.readTextFile(root + name)),
    );
    assertMatch(
      written,
      /^a\n\n<!-- growth -->\n\nMedian [^]*\| 1 000 +\|[^]*<!-- end -->\n\nb\n$/,
    );
    assertMatch(
      readme,
      /^a\n\n\| b [^]*on a node with 1 000 containers \| 15 ms, 15/,
    );
    assertMatch(image, /^<svg /);
    await write();
    assertEquals(await Deno.readTextFile(`${root}README.md`), readme);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
