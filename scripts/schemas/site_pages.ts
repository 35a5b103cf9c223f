/**
 * Adds to the pages of the site what is made from the source: the page of findings,
 * from the table of checks, and links from each code of a finding to its section.
 *
 * @module
 */

import { CHECKS } from "../../cli/doctor/checks.ts";
import type { Check } from "../../cli/doctor/finding.ts";

/** The parts of a page that stay as they are: code, links, headings. */
const KEPT = /^```[^]*?^```|`[^`\n]*`|\[[^\]]*\]\([^)]*\)|^#+ .*$/gm;

/** Links codes of findings, such as CNI0403, to their sections. */
export function linkCodes(page: string): string {
  const link = (text: string): string =>
    text.replace(
      /\bCNI0\d{3}\b/g,
      (code) => `[${code}](findings.md#${code.toLowerCase()})`,
    );
  let at = 0;
  let linked = "";
  for (const { 0: kept, index } of page.matchAll(KEPT)) {
    linked += link(page.slice(at, index)) + kept;
    at = index + kept.length;
  }
  return linked + link(page.slice(at));
}

const INTRODUCTION = `# Findings

The findings that [\`cni doctor\`](doctor.md) reports, and how each one affects
pods. \`cni explain CNI0101\` prints a single finding.
`;

/** The areas of codes, by their first two digits. */
const AREAS: Readonly<Record<string, string>> = {
  "01": "Configurations",
  "02": "Plugins and programs",
  "03": "The node",
  "04": "Daemons and services",
  "05": "Links and addresses",
  "06": "Packets",
  "07": "Containers",
};

/** Returns the page, not formatted. */
export function formatFindingsPage(): string {
  const checks = CHECKS.toSorted((left, right) =>
    left.code < right.code ? -1 : 1
  );
  const areas = Map.groupBy(checks, ({ code }) => code.slice(3, 5));
  return [
    INTRODUCTION,
    ...[...areas].flatMap(([area, some]) => [
      `## ${AREAS[area] ?? area}\n`,
      ...some.map(formatPart),
    ]),
  ].join("\n");
}

function formatPart(
  { code, name, finds, effect, cause, howToInspect, howToFix }: Check,
): string {
  return `### ${code}

\`${name}\`: ${finds}. ${effect}

- **Cause:** ${cause}
- **Look:** ${howToInspect}
- **Fix:** ${howToFix}
`;
}

/** Completes the pages in a directory. */
async function completePages(directory: string): Promise<void> {
  const names = await Array.fromAsync(Deno.readDir(directory));
  for (const { name } of names) {
    if (!name.endsWith(".md")) continue;
    const path = `${directory}/${name}`;
    const page = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, linkCodes(page));
  }
  await Deno.writeTextFile(`${directory}/findings.md`, formatFindingsPage());
}

if (import.meta.main) await completePages(Deno.args[0] ?? "docs/site/.pages");
