/**
 * Writes the matrix of docs/conformance.md from results of `cni conform --json`:
 *
 *     deno run -A scripts/conformance_page.ts NAME=RESULTS.json...
 *
 * All executables of the files with one NAME become a table of their own.
 *
 * @module
 */

import type { Report } from "../testing/conform/report.ts";
import type { Outcome } from "../testing/conform/verdict.ts";

const PAGE = new URL("../docs/conformance.md", import.meta.url);
const BEGIN = "<!-- Matrix: written by scripts/conformance_page.ts -->";
const END = "<!-- End of the matrix -->";

/** Formats a table: a row for executables of the same outcome, with the demands that they break. */
export function formatMatrix(reports: readonly Report[]): string {
  const outcomes = Map.groupBy(reports, ({ rows }) => {
    const of = (outcome: Outcome): typeof rows =>
      rows.filter((row) => row.outcome === outcome);
    const broken = of("broken");
    const names = (isMust: boolean): string =>
      broken.filter(({ strength }) => (strength === "MUST") === isMust)
        .map(({ id }) => `\`${id}\``).join(", ");
    return [
      ...[of("kept"), broken, of("untried")].map(({ length }) => `${length}`),
      names(true),
      names(false),
    ].join(" | ");
  });
  const lines = [...outcomes].map(([outcome, some]) =>
    `| ${some.map(({ name }) => name).join(", ")} | ${outcome} |`
  );
  const heads = ["plugin", "kept", "broken", "not tried", "MUST", "others"];
  const kinds = ["---", "--:", "--:", "--:", "---", "---"];
  const head = [heads, kinds].map((cells) => `| ${cells.join(" | ")} |`);
  return [...head, ...lines].join("\n");
}

/** Puts texts between the marks of a page. */
export function fillPage(page: string, text: string): string {
  const [start, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (start < 0 || end < start) throw new Error("The page has no marks");
  return `${page.slice(0, start)}${BEGIN}\n\n${text}\n\n${page.slice(end)}`;
}

if (import.meta.main) {
  const byName = Map.groupBy(
    Deno.args.map((arg): [string, string] => {
      const at = arg.indexOf("=");
      return [arg.slice(0, at), arg.slice(at + 1)];
    }),
    ([name]) => name,
  );
  const parts = [...byName].map(([name, files]) => {
    const reports = files.flatMap(([, path]): Report[] =>
      JSON.parse(Deno.readTextFileSync(path)).executables ?? []
    );
    return `### ${name}\n\n${formatMatrix(reports)}`;
  });
  const page = await Deno.readTextFile(PAGE);
  await Deno.writeTextFile(PAGE, fillPage(page, parts.join("\n\n")));
}
