import { assertEquals } from "@std/assert";
import type {
  BuiltInMetadata,
  PluginKind,
} from "../metadata/plugin_metadata.ts";
import { formatPluginLists } from "../scripts/schemas/plugin_lists.ts";
import { METADATA } from "./lists/metadata.ts";
import { pluginNames, registry } from "./registry.ts";

Deno.test("each plugin has metadata under its own type", async (t) => {
  assertEquals([...METADATA.keys()].toSorted(), pluginNames.toSorted());
  for (const type of pluginNames) {
    await t.step(type, async () => {
      assertEquals((await registry[type]?.())?.name, METADATA.get(type)?.type);
    });
  }
});

Deno.test("plugin types that metadata names have metadata", () => {
  const named = [...METADATA.values()].flatMap(({ runs }) => [
    ...runs?.type ? [runs.type] : [],
    ...runs?.ipamType ? [runs.ipamType] : [],
  ]);
  assertEquals(named.filter((type) => !METADATA.has(type)), []);
});

Deno.test("plugins/lists equals the output of deno task schemas", async () => {
  const root = new URL("../", import.meta.url).pathname;
  const lists = await formatPluginLists(root);
  assertEquals(Object.keys(lists).length, 2);
  for (const [path, text] of Object.entries(lists)) {
    assertEquals(await Deno.readTextFile(`${root}${path}`), text);
  }
});

/** The groups of README's table. */
const GROUPS: Readonly<Record<PluginKind, string>> = {
  interface: "Interfaces",
  ipam: "Addresses",
  chained: "After an interface",
  meta: "Several plugins",
};

async function rowOf(
  { type, status, page = type, keys }: BuiltInMetadata,
): Promise<(string | undefined)[]> {
  const { summary } = await keys();
  const link = `[\`${type}\`](docs/${page.replace(/(#|$)/, ".md$1")})`;
  return [link, summary, status];
}

Deno.test("README.md lists the plugins with the descriptions of their metadata", async () => {
  const readme = await Deno.readTextFile(
    new URL("../README.md", import.meta.url),
  );
  const [, table = ""] = readme.split("what it does");
  const rows = (table.split("\n\n")[0] ?? "").split("\n").slice(2)
    .map((line) => line.split("|").slice(1, 4).map((cell) => cell.trim()));
  // Another name of a plugin is on that one's page.
  const listed = [...METADATA.values()].filter(({ type, page = type }) =>
    page === type || page.includes("#")
  );
  const isTitle = ([name = ""]: string[]): boolean => name.startsWith("**");
  assertEquals(
    rows.filter(isTitle),
    Object.values(GROUPS).map((title) => [`**${title}**`, "", ""]),
  );
  for (const [kind, title] of Object.entries(GROUPS)) {
    const after = rows.slice(
      rows.findIndex(([name]) => name === `**${title}**`) + 1,
    );
    const end = after.findIndex(isTitle);
    const group = after.slice(0, end < 0 ? undefined : end);
    assertEquals(
      group.toSorted(),
      (await Promise.all(
        listed.filter((metadata) => metadata.kind === kind).map(rowOf),
      )).toSorted(),
    );
  }
});
