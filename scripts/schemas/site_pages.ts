/**
 * Adds to the pages of the site what is made from the source: the page of findings,
 * and links from each code of a finding to its section.
 *
 * @module
 */

import { formatFindingsPage } from "./findings_page.ts";

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
