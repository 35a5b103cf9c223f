/**
 * Reports on executables, for CI systems.
 *
 * @module
 */

import type { Report } from "../../testing/conform/report.ts";
import type { Row } from "../../testing/conform/run.ts";
import {
  type Attributes,
  element,
  escapeXml,
} from "../../base/command_line/svg.ts";

/** Formats reports as JUnit's XML: a suite for each executable. */
export function formatJunit(
  reports: readonly Report[],
  isFailure: (row: Row) => boolean,
): string {
  const suites = reports.map(({ name, rows }) =>
    element("testsuite", {
      name: escapeXml(name),
      tests: rows.length,
      failures: rows.filter(isFailure).length,
      skipped: rows.filter((row) => isSkipped(row, isFailure)).length,
    }, `\n${rows.map((row) => formatCase(name, row, isFailure)).join("\n")}\n`)
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n${
    element("testsuites", { name: "cni conform" }, `\n${suites.join("\n")}\n`)
  }\n`;
}

function isSkipped(row: Row, isFailure: (row: Row) => boolean): boolean {
  return row.outcome !== "kept" && !isFailure(row);
}

function formatCase(
  suite: string,
  row: Row,
  isFailure: (row: Row) => boolean,
): string {
  const { id, title, strength, section, why = "", shows = [] } = row;
  const attributes: Attributes = {
    classname: escapeXml(suite),
    name: escapeXml(`${id}: ${title} (${strength}, section ${section})`),
    time: row.milliseconds / 1000,
  };
  const message = escapeXml(clean(why));
  const content = isFailure(row)
    ? element(
      "failure",
      { message, type: strength },
      escapeXml(clean(shows.join("\n"))),
    )
    : isSkipped(row, isFailure)
    ? element("skipped", { message })
    : "";
  return element("testcase", attributes, content);
}

/** Takes away what XML cannot have. */
function clean(text: string): string {
  // deno-lint-ignore no-control-regex -- these
  return text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "\ufffd");
}
