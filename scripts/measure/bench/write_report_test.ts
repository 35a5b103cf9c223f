import { assertEquals, assertStringIncludes } from "@std/assert";
import { sampleReport, sampleRow } from "./report_sample.ts";
import { writeReport } from "./write_report.ts";

Deno.test("writeReport() writes document, tables and chart, growth apart from the rest", async (t) => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    for (const growth of [false, true]) {
      const stem = `${directory}/new/${growth ? "growth" : "bench"}`;
      await t.step(stem.slice(directory.length), async () => {
        const report = sampleReport([sampleRow()], { growth });
        const files = await writeReport(report, `${directory}/new`);
        assertEquals(files, [`${stem}.json`, `${stem}.md`, `${stem}.svg`]);
        const [json = "", md = "", svg = ""] = await Promise.all(
          files.map((file) => Deno.readTextFile(file)),
        );
        assertEquals(JSON.parse(json), report);
        assertStringIncludes(md, "| ADD | ours |");
        assertStringIncludes(svg, growth ? "<polyline" : "ptp: ADD");
      });
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("writeReport() writes a smaller chart if there are pods", async () => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const rows = [sampleRow({ chain: "pod", who: "go" })];
    const files = await writeReport(sampleReport(rows), directory);
    assertEquals(files.at(-1), `${directory}/bench.overview.svg`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("writeReport() writes nothing of nothing", async () => {
  assertEquals(await writeReport(sampleReport([]), "/no/such/directory"), []);
});
