/**
 * The plugins' pages in docs/: what they say a plugin is, its keys, and examples.
 *
 * @module
 */

import { toPlainText } from "../../cni/tools/json_schema.ts";

/** A key as a page describes it, in Markdown. */
export interface KeyRow {
  readonly key: string;
  /** "" if the table has no such column. */
  readonly type: string;
  readonly default: string;
  readonly meaning: string;
}

/** A plugin's page. */
export interface Page {
  /** The first paragraph. */
  readonly about: string;
  /** In the order of the page. */
  readonly rows: readonly KeyRow[];
  /** The configurations in the page. */
  readonly examples: readonly Record<string, unknown>[];
}

/** Reads a plugin's page. */
export function parsePage(markdown: string): Page {
  return {
    about: parseAbout(markdown),
    rows: parseTables(markdown),
    examples: [...markdown.matchAll(/```json\n(.*?)```/gs)]
      .map(([, block = ""]) => JSON.parse(block)),
  };
}

function parseAbout(markdown: string): string {
  const [, ...paragraphs] = markdown.split("\n\n");
  const first = paragraphs.find((text) => /^[A-Z`[]/.test(text)) ?? "";
  return toPlainText(first.replaceAll("\n", " "));
}

function parseTables(markdown: string): KeyRow[] {
  const rows: KeyRow[] = [];
  let columns: string[] = [];
  for (const line of markdown.split("\n")) {
    if (!line.startsWith("|")) {
      columns = [];
      continue;
    }
    const cells = line.split(/(?<!\\)\|/).slice(1, -1).map((cell) =>
      cell.trim()
    );
    if (columns.length === 0) {
      columns = cells.map((cell) => cell.toLowerCase());
      continue;
    }
    if (!["key", "input"].includes(columns[0] ?? "")) continue;
    const cell = (name: string): string => cells[columns.indexOf(name)] ?? "";
    for (const [, key = ""] of (cells[0] ?? "").matchAll(/`([\w.[\]]+)`/g)) {
      const [type, meaning] = [cell("type"), cell("meaning")];
      rows.push({ key, type, default: cell("default"), meaning });
    }
  }
  return rows;
}
