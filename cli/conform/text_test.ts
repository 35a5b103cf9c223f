import { assertEquals } from "@std/assert";
import type { Report } from "../../testing/conform/report.ts";
import type { Row } from "../../testing/conform/run.ts";
import { chooseStyle } from "../../base/command_line/style.ts";
import { formatReports } from "./text.ts";

/** Formats a report on lo, with requirements that were not tried for these reasons. */
function format(reasons: Readonly<Record<string, string>>): string[] {
  const rows = Object.entries(reasons).map(([id, why]): Row => ({
    id,
    title: "CHECK fails",
    section: "2 CHECK",
    strength: "SHOULD",
    outcome: "untried",
    why,
    milliseconds: 0,
  }));
  const report: Report = {
    name: "loopback",
    executable: "/opt/cni/bin/loopback",
    type: "loopback",
    kind: "interface",
    versions: ["1.1.0"],
    addFails: "no tun device",
    rows,
    needs: null,
  };
  const style = chooseStyle(false, undefined);
  return formatReports([report], style, { isFull: false }).split("\n");
}

Deno.test("formatReports() prints each requirement's name, and why it was skipped", () => {
  const lines = format({
    "del-link-gone": "lo cannot go",
    "check-link": "lo cannot go",
    "check-rule": "ADD makes no policy rule",
    "check": "no tun device",
  });
  assertEquals(lines, [
    "loopback (interface, 1.1.0)",
    "ADD could not be tested: no tun device",
    "RESULT  STRENGTH  REQUIREMENT (SECTION OF THE SPECIFICATION; NAME)",
    "-       SHOULD    CHECK fails (2 CHECK; del-link-gone)",
    "-       SHOULD    CHECK fails (2 CHECK; check-link)",
    "-       SHOULD    CHECK fails (2 CHECK; check-rule)",
    "-       SHOULD    CHECK fails (2 CHECK; check)",
    "",
    "Not tried:",
    "  del-link-gone, check-link: lo cannot go",
    "  check-rule: ADD makes no policy rule",
    "",
    "loopback: 0 kept; broken: 0 MUST, 0 SHOULD, 0 practice; 4 not tested",
  ]);
});
