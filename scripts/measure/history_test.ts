import { assert, assertEquals } from "@std/assert";
import { sampleReport, sampleRow } from "./bench/testing.ts";
import { formatPage, summarizeRun } from "./history.ts";

Deno.test("a run keeps steps that were compared; the page escapes, newest first", () => {
  const runs = [[0.5, "first"], [0.25, "<b>"]] as const;
  const entries = runs.map(([median, commit]) => {
    const ratio = { to: "go", median };
    const rows = [sampleRow({ ratio }), sampleRow({ who: "go" })];
    return summarizeRun(sampleReport(rows), commit);
  });
  assertEquals(entries.map(({ ratios }) => ratios), [
    { "ptp, 0 containers: ADD, ours": 0.5 },
    { "ptp, 0 containers: ADD, ours": 0.25 },
  ]);
  const page = formatPage(entries);
  assert(page.includes("<td>ptp, 0 containers: ADD, ours<td>0.25<td>0.50"));
  assert(page.includes("<td>&lt;b&gt;<td>first"));
});
