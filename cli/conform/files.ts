/**
 * Reports on executables in files: a page with a matrix, and JUnit's XML for CI
 * systems.
 *
 * @module
 */

import { count, type Report } from "../../testing/conform/report.ts";
import type { Row } from "../../testing/conform/run.ts";
import { TOPICS } from "../../testing/conform/rows/all.ts";
import { type Attributes, element, escapeXml } from "../svg.ts";

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882;
  --ok: #1a7f37; --bad: #cf222e; --warn: #9a6700; }
@media (prefers-color-scheme: dark) {
  :root { --ok: #3fb950; --bad: #f85149; --warn: #d29922; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem;
  max-width: 80rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .5rem;
  text-align: left; vertical-align: top; }
thead th { position: sticky; top: 0; background: Canvas; }
thead th.plugin { writing-mode: vertical-rl; transform: rotate(180deg);
  white-space: nowrap; }
td.kept { color: var(--ok); } td.MUST { color: var(--bad); font-weight: 700; }
td.SHOULD, td.PRACTICE { color: var(--warn); }
td.result { text-align: center; } tr.topic th { padding-top: 1rem; }
td.result a { color: inherit; } small { opacity: .75; }
pre { overflow-x: auto; background: var(--soft); padding: .6rem; }
`;

/** Formats reports as a page of their own. */
export function formatPage(reports: readonly Report[]): string {
  const heads = reports.map(({ name }) =>
    `<th class="plugin" scope="col">${escapeXml(name)}</th>`
  );
  const body = TOPICS.flatMap(([topic, requirements]) => {
    const lines = requirements.filter(({ id }) =>
      reports.some(({ rows }) => rows.some((row) => row.id === id))
    ).map(({ id, title, strength, section }) =>
      `<tr><th scope="row">${escapeXml(title)}<br><small>${id}, ` +
      `section ${escapeXml(section)}</small></th><td>${strength}</td>` +
      reports.map((report) => formatCell(report, id)).join("") + "</tr>"
    );
    const span = reports.length + 2;
    return lines.length === 0 ? [] : [
      `<tr class="topic"><th colspan="${span}">${escapeXml(topic)}</th></tr>`,
      ...lines,
    ];
  });
  return `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Conformance of CNI plugins</title>
<style>${STYLE}</style>
<h1>Conformance of CNI plugins</h1>
<p>✓ kept · ✗ broken · – not tested; an empty cell: does not apply to this plugin.</p>
<div class="scroll"><table>
<thead><tr><th scope="col">Requirement</th><th scope="col">Strength</th>${
    heads.join("")
  }</tr></thead>
<tbody>
${body.join("\n")}
</tbody></table></div>
${reports.map(formatDetails).join("\n")}
</html>
`;
}

function anchor({ name }: Report, id: string): string {
  return `${name}-${id}`.replace(/[^\w-]/g, "-");
}

function formatCell(report: Report, id: string): string {
  const row = report.rows.find((one) => one.id === id);
  if (row === undefined) return "<td></td>";
  const { outcome, strength, why = "" } = row;
  const title = escapeXml(why);
  if (outcome === "kept") return '<td class="result kept">✓</td>';
  return outcome === "untried"
    ? `<td class="result" title="${title}">–</td>`
    : `<td class="result ${strength}" title="${title}">` +
      `<a href="#${anchor(report, id)}">✗</a></td>`;
}

function formatDetails(report: Report): string {
  const { name, executable, rows, addFails } = report;
  const { kept, broken, untried } = count(rows);
  const failed = rows.filter(({ outcome }) => outcome === "broken");
  const why = addFails === null
    ? ""
    : `<p>ADD could not be tested: ${escapeXml(addFails)}</p>`;
  return `<h2>${escapeXml(name)}</h2>
<p><code>${escapeXml(executable)}</code>: ${kept} kept, ${broken.MUST} MUST, ` +
    `${broken.SHOULD} SHOULD and ${broken.PRACTICE} practices broken, ` +
    `${untried} not tested.</p>${why}
${failed.map((row) => formatDefect(report, row)).join("\n")}`;
}

function formatDefect(report: Report, row: Row): string {
  const { id, title, strength, section, why = "", shows = [] } = row;
  return `<h3 id="${anchor(report, id)}">${escapeXml(title)}</h3>
<p>${strength}, section ${escapeXml(section)}: ${escapeXml(why)}</p>
<pre>${escapeXml(shows.join("\n"))}</pre>`;
}

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
