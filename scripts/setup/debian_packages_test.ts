import { assertEquals } from "@std/assert";
import { findMissing } from "./debian_packages.ts";
import { eachRow } from "../../tests/_harness/table.ts";

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
  await eachRow(
    t,
    rows,
    ([, status, missing]) => assertEquals(findMissing(wanted, status), missing),
  );
});
