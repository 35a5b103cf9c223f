import { assertEquals } from "@std/assert";
import { findMissing } from "./debian_packages.ts";

Deno.test("findMissing() returns what dpkg does not call installed", async (t) => {
  const wanted = ["nftables", "strace"];
  const rows: [name: string, status: string, missing: string[]][] = [
    ["all there", "nftables installed\nstrace installed\n", []],
    ["one unknown", "nftables installed\n", ["strace"]],
    ["one removed", "nftables config-files\nstrace installed\n", ["nftables"]],
    ["one half", "nftables half-installed\nstrace installed\n", ["nftables"]],
    ["one not", "nftables not-installed\nstrace installed\n", ["nftables"]],
    ["others", "strace-dbg installed\nnftables installed\n", ["strace"]],
    ["nothing", "", wanted],
  ];
  for (const [name, status, missing] of rows) {
    await t.step(
      name,
      () => assertEquals(findMissing(wanted, status), missing),
    );
  }
});
