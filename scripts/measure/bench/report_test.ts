import { assertEquals } from "@std/assert";
import { formatReport } from "./report.ts";
import { sampleReport, sampleRow } from "./testing.ts";

Deno.test("formatReport() is a document of headings, lists and aligned tables", () => {
  const ratio = { to: "go", median: 2.5 };
  const rows = [
    sampleRow({ cell: "pod, 0 containers", chain: "pod", ratio }),
    sampleRow({ cell: "pod, 0 containers", chain: "pod", who: "go" }),
    sampleRow({ cell: "ptp, 0 containers, 4 at once", perSecond: 12.34 }),
  ];
  assertEquals(
    formatReport(sampleReport(rows, ["Skipped it"])),
    `# What containers cost

- 2026-01-02T03:04Z, Linux 6.1.0 x86_64
- 4 processors (Fast One), 8192 MiB, load 0.3
- ours: v1.0.0, go: v1.1.1, deno: 2.9.6
- Skipped it

## pod (ptp, bandwidth, sbr), 0 containers

| step | who  | wall ms | quartiles | CPU ms | wall/go |
| ---- | ---- | ------: | --------- | -----: | ------: |
| ADD  | ours |    25.0 | 24.0-26.5 |   20.0 |    2.50 |
| ADD  | go   |    25.0 | 24.0-26.5 |   20.0 |         |

## ptp, 0 containers, 4 at once

| step | who  | wall ms | quartiles | CPU ms | per second |
| ---- | ---- | ------: | --------- | -----: | ---------: |
| ADD  | ours |    25.0 | 24.0-26.5 |   20.0 |       12.3 |
`,
  );
});
