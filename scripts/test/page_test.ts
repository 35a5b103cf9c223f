import { assertEquals } from "@std/assert";
import { formatRows, isRow } from "./page.ts";

Deno.test("isRow() knows rows, and not their steps", () => {
  assertEquals(isRow("conformance ptp: PTP-1 it attaches"), true);
  assertEquals(isRow("conformance ptp: PTP-1 it attaches ... a step"), false);
  assertEquals(isRow("ptp.add() attaches"), false);
  assertEquals(
    isRow("ptp leaves what the Go plugin leaves: a (Go 1.10.0)"),
    true,
  );
  assertEquals(isRow("ptp: GC, DEL (Go 1.10.0) ... beside ours"), false);
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
        { name: "conformance vlan in a chain by daemon: adds", outcome: "ok" },
        { name: "conformance vlan rootless: adds, 1.1.0", outcome: "ok" },
        { name: "vlan: DEL ours (Go 1.10.0)", outcome: "ok" },
        {
          name: "vlan, trunk: DEL ours (Go 1.10.0) (skipped: needs VLANs)",
          outcome: "ignored",
        },
      ],
    },
    {
      kernel: "User-mode Linux",
      rows: [{ name: "conformance vlan: trunk", outcome: "ok" }],
    },
  ]);
  assertEquals(page.split("\n").slice(6), [
    "| area | rows | Linux 6.12, in process | Linux 6.12, by daemon | Linux 6.12, in a chain, by daemon | Linux 6.12, rootless | Linux 6.12, beside Go 1.10.0 | User-mode Linux, in process |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
    "| vlan | 5 | 1 (1) | + 1 | 1 | 1 | 1 (1) | 1 |",
    "",
    "## Failed",
    "",
    "- Linux 6.12, by daemon",
    "  - vlan: adds, 1.1.0",
    "",
    "## Skipped",
    "",
    "- needs VLANs: Linux 6.12, beside Go 1.10.0",
    "  - vlan: vlan, trunk: DEL ours (Go 1.10.0)",
    "- needs VLANs: Linux 6.12, in process",
    "  - vlan: trunk",
    "",
  ]);
});
