import { assertEquals } from "@std/assert";
import { formatRows, isRow } from "./page.ts";

Deno.test("isRow() knows rows, and not their steps", () => {
  assertEquals(isRow("conformance ptp: PTP-1 it attaches"), true);
  assertEquals(isRow("conformance ptp: PTP-1 it attaches ... a step"), false);
  assertEquals(isRow("ptp.add() attaches"), false);
});

Deno.test("formatRows() counts ways and kernels, and says why not", () => {
  const page = formatRows([
    {
      kernel: "Linux 6.12",
      rows: [
        { name: "conformance vlan: adds, 1.1.0", outcome: "ok" },
        { name: "conformance vlan by daemon: adds, 1.1.0", outcome: "FAILED" },
        {
          name: "conformance vlan: trunk (skipped: needs VLANs)",
          outcome: "ignored",
        },
      ],
    },
    {
      kernel: "User-mode Linux",
      rows: [{ name: "conformance vlan: trunk", outcome: "ok" }],
    },
  ]);
  assertEquals(page.split("\n").slice(5), [
    "| area | rows | Linux 6.12, in process | Linux 6.12, by daemon | User-mode Linux, in process |",
    "| --- | --- | --- | --- | --- |",
    "| vlan | 2 | 1 (1) | + 1 | 1 |",
    "",
    "## Failed",
    "",
    "- Linux 6.12, by daemon",
    "  - vlan: adds, 1.1.0",
    "",
    "## Skipped",
    "",
    "- needs VLANs: Linux 6.12, in process",
    "  - vlan: trunk",
    "",
  ]);
});
