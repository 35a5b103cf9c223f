/**
 * Makes the site's page of findings from the table of checks, as `deno doc` makes
 * the reference of the library: `docs` has no copy of what `cni explain` prints.
 *
 * @module
 */

import { CHECKS } from "../../cli/doctor/checks.ts";
import type { Check } from "../../cli/doctor/finding.ts";

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
  { code, name, finds, effect, cause, look, fix }: Check,
): string {
  return `### ${code}

\`${name}\`: ${finds}. ${effect}

- **Cause:** ${cause}
- **Look:** ${look}
- **Fix:** ${fix}
`;
}
