/**
 * Makes parts of plugins' pages from the metadata of the plugins: the first
 * paragraph, the example, and the tables of keys.
 *
 * A part begins with `<!-- text of ptp -->`, `<!-- example of ptp -->` or
 * `<!-- keys of ptp -->`, and ends with `<!-- end -->`. A table has the keys
 * whose metadata has a type or a default, or the keys that its first line names:
 * `<!-- keys of host-local: ranges[][].subnet ranges[][].gateway -->`. `common`
 * stands for the keys that several plugins share.
 *
 * @module
 */

import { COMMON_KEYS } from "../../metadata/common_keys.ts";
import type { KeyDescription, PluginKeys } from "../../metadata/plugin_keys.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";

const PART =
  /(<!-- (text|example|keys) of ([\w-]+)(?:: ([^>]+?))? -->\n)[^]*?(<!-- end -->)/g;

/** The columns of a table after the key. */
const COLUMNS = [
  ["type", ({ type = "" }: KeyDescription) => type],
  ["default", (metadata: KeyDescription) => metadata.default ?? ""],
  ["meaning", ({ text = "" }: KeyDescription) => text],
] as const;

/**
 * Writes the parts of a page anew, not formatted.
 *
 * @param options `mayLack` leaves parts of plugins that do not exist, such as a plugin
 * whose directory was moved out
 * @throws {Error} If a part names a plugin or a key that does not exist
 */
export async function withPluginParts(
  page: string,
  { mayLack = false }: { readonly mayLack?: boolean } = {},
): Promise<string> {
  const types = [...page.matchAll(PART)].map(([, , , type = ""]) => type);
  const plugins = new Map<string, PluginKeys>([
    ["common", { text: "", keys: COMMON_KEYS }],
  ]);
  for (const type of types.filter((type) => !plugins.has(type))) {
    const metadata = METADATA.get(type);
    if (metadata !== undefined) plugins.set(type, await metadata.keys());
    else if (!mayLack) throw new Error(`No plugin is named "${type}"`);
  }
  return page.replaceAll(
    PART,
    (whole, begin, kind, type, names, end) => {
      const plugin = plugins.get(type);
      if (plugin === undefined) return whole;
      const part = formatPart(kind, plugin, names?.split(/\s+/));
      return `${begin}\n${part}\n\n${end}`;
    },
  );
}

function formatPart(
  kind: string,
  plugin: PluginKeys,
  names: readonly string[] | undefined,
): string {
  if (kind === "text") return plugin.text;
  if (kind === "keys") return formatKeys(plugin.keys, names);
  return `\`\`\`json\n${formatJson(plugin.example)}\n\`\`\``;
}

/** Writes what fits into a line in one line. */
function formatJson(value: unknown, indent = ""): string {
  const line = JSON.stringify(value, null, 1).replace(/\n\s*/g, " ")
    .replace(/\[ | \]/g, (bracket) => bracket.trim());
  if (typeof value !== "object" || value === null) return line;
  const isShort = indent !== "" && line.length + indent.length < 78;
  if (isShort) return line;
  const inner = `${indent}  `;
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const parts = Object.entries(value).map(([key, item]) =>
    inner + (Array.isArray(value) ? "" : `${JSON.stringify(key)}: `) +
    formatJson(item, inner)
  );
  return `${open}\n${parts.join(",\n")}\n${indent}${close}`;
}

/** Keys in sequence whose cells are equal share a row. */
function formatKeys(
  keys: PluginKeys["keys"],
  names: readonly string[] = Object.keys(keys).filter((path) =>
    !path.includes("[]") &&
    (keys[path]?.type !== undefined || keys[path]?.default !== undefined)
  ),
): string {
  const rows: { names: string[]; cells: string[] }[] = [];
  for (const path of names) {
    const metadata = keys[path];
    if (metadata === undefined) throw new Error(`No key is named "${path}"`);
    const name = `\`${path.replace(/.*\[\]\./, "")}\``;
    const cells = COLUMNS.map(([, read]) => read(metadata));
    const last = rows.at(-1);
    if (last?.cells.join("|") === cells.join("|")) last.names.push(name);
    else rows.push({ names: [name], cells });
  }
  const isUsed = (at: number): boolean =>
    rows.some(({ cells }) => cells[at] !== "");
  const select = (cells: readonly string[]): string[] =>
    cells.filter((_, at) => isUsed(at));
  const titles = select(COLUMNS.map(([title]) => title));
  return [
    ["key", ...titles],
    ["---", ...titles.map(() => "---")],
    ...rows.map(({ names, cells }) => [names.join(", "), ...select(cells)]),
  ].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
