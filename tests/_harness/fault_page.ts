/**
 * The list tests/golden/fault_steps.md.
 *
 * @module
 */

import { FAULT_ROWS, titleOf, WITHOUT_ROW } from "./fault_rows.ts";

const PAGE = new URL("../golden/fault_steps.md", import.meta.url);

const INTRO = `# Steps with faults

Each step by which a plugin changes the world: requests that change something in
the kernel, commits of nftables, files, programs. \`tests/fault_table_test.ts\`
says which harm it does after them, and writes this list with
\`CNI_FAULT_TABLE=write\`.
`;

/** Reads the sections of the page, by their titles. */
export function readPage(): Map<string, string> {
  const [, ...parts] = Deno.readTextFileSync(PAGE).split("\n## ");
  return new Map(parts.map((part) => {
    const [title = "", ...lines] = part.split("\n");
    return [title, squeeze(lines.join("\n"))];
  }));
}

/** Writes the page with new sections; the others stay. */
export function writePage(sections: ReadonlyMap<string, string>): void {
  const known = new Map([...readPage(), ...sections]);
  const parts = FAULT_ROWS.map(titleOf).filter((title) => known.has(title))
    .map((title) => `## ${title}\n\n${known.get(title)}\n`);
  const others = Object.entries(WITHOUT_ROW)
    .map(([type, why]) => `## ${type}\n\n${why}\n`);
  Deno.writeTextFileSync(PAGE, [INTRO, ...parts, ...others].join("\n"));
  new Deno.Command(Deno.execPath(), { args: ["fmt", PAGE.pathname] })
    .outputSync();
}

/** Removes the breaks within lines of a list. */
export function squeeze(text: string): string {
  return text.trim().split(/\n(?!- )/).join(" ").replaceAll(/ {2,}/g, " ");
}

/** Returns the name of a step in the page: the same on every machine. */
export function nameOf(
  step: string,
  { directory, path }: { readonly directory: string; readonly path: string },
): string {
  return step.replaceAll(path, "BIN").replaceAll(directory, "…")
    .replaceAll("/proc/sys/", "")
    .replace(/(leases\/\w+)\/[0-9a-f.:]+$/, "$1/ADDRESS")
    .replaceAll(/\b(veth|bwp|when_)?[0-9a-f]{8,}\b/g, "$1…")
    .replaceAll(/\/(usr\/)?(local\/)?s?bin\//g, "")
    .replace(/ --noflush.*/, "");
}

/** Joins equal steps that follow each other. */
export function summarize(steps: readonly string[]): string {
  const parts: { name: string; count: number }[] = [];
  for (const name of steps) {
    const last = parts.at(-1);
    if (last?.name === name) last.count++;
    else parts.push({ name, count: 1 });
  }
  return parts.map(({ name, count }) =>
    count === 1 ? `\`${name}\`` : `\`${name}\` ×${count}`
  ).join(", ");
}
