import { assertEquals, assertStringIncludes } from "@std/assert";
import { formatMarkdown, formatReport, formatTable } from "./report.ts";
import { sampleReport, sampleRow } from "./report_sample.ts";

const SPREAD = { median: 2.5, q1: 2, q3: 3, min: 1 };
const RATIO = { to: "go", wallMs: SPREAD, cpuMs: SPREAD };

Deno.test("formatTable() aligns, numbers to the right, and leaves out empty columns", () => {
  const rows = [
    sampleRow({ ratio: RATIO, peakKib: 40_960, execs: 1, syscalls: 500 }),
    sampleRow({ who: "go", wallMs: SPREAD, peakKib: 4096 }),
  ];
  assertEquals(
    formatTable(rows),
    [
      "step  who   wall ms  quartiles  CPU ms  wall/go  quartiles  CPU/go  peak MiB  execs  syscalls",
      "ADD   ours     25.0  24.0-26.5    20.0     2.50  2.00-3.00    2.50        40      1       500",
      "ADD   go       2.50  2.00-3.00    20.0                                     4",
    ].join("\n"),
  );
});

Deno.test("formatReport() has machine, cells and notes", () => {
  const rows = [
    sampleRow(),
    sampleRow({ cell: "pod, 0 containers", chain: "pod", perSecond: 12.34 }),
  ];
  const text = formatReport(sampleReport(rows, { notes: ["Skipped it"] }));
  assertEquals(text.split("\n\n").length, 4);
  for (
    const part of [
      "2026-01-02T03:04Z, Linux 6.1.0 x86_64\n",
      "4 processors (Fast One), 8192 MiB, load 0.3\n",
      "ours: v1.0.0, go: v1.1.1, deno: 2.9.6\n",
      "\n\nptp, 0 containers\n  step",
      "\n\npod (ptp, bandwidth, sbr), 0 containers\n",
      "per second\n",
      "12.3\n\nSkipped it",
    ]
  ) assertStringIncludes(text, part);
});

Deno.test("formatMarkdown() is a document of headings, lists and tables", () => {
  const rows = [sampleRow()];
  const text = formatMarkdown(sampleReport(rows, { notes: ["Skipped it"] }));
  assertEquals(
    text,
    `# What containers cost

- 2026-01-02T03:04Z, Linux 6.1.0 x86_64
- 4 processors (Fast One), 8192 MiB, load 0.3
- ours: v1.0.0, go: v1.1.1, deno: 2.9.6
- Skipped it

## ptp, 0 containers

| step | who | wall ms | quartiles | CPU ms |
| --- | --- | ---: | --- | ---: |
| ADD | ours | 25.0 | 24.0-26.5 | 20.0 |
`,
  );
});
