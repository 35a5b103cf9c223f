import { assertEquals } from "@std/assert";
import type { About, PluginKind } from "../cni/about.ts";
import { ABOUTS, findAbout } from "./abouts.ts";
import { pluginNames, registry } from "./registry.ts";

Deno.test("each plugin tells of itself, under its own type", async (t) => {
  const types = ABOUTS.map(({ type }) => type);
  assertEquals(types.toSorted(), pluginNames.toSorted());
  for (const type of pluginNames) {
    await t.step(type, async () => {
      assertEquals((await registry[type]?.())?.name, findAbout(type)?.type);
    });
  }
});

Deno.test("the types that plugins name are of plugins that tell of themselves", () => {
  const named = ABOUTS.flatMap(({ runs, refusesIpam = [] }) => [
    ...runs?.type ? [runs.type] : [],
    ...runs?.ipamType ? [runs.ipamType] : [],
    ...refusesIpam,
  ]);
  assertEquals(named.filter((type) => findAbout(type) === undefined), []);
});

/** The groups of README's table. */
const GROUPS: Readonly<Record<PluginKind, string>> = {
  interface: "Interfaces",
  ipam: "Addresses",
  chained: "After an interface",
  meta: "Several plugins",
};

function rowOf({ type, summary, page = type }: About): string[] {
  return [`[\`${type}\`](docs/${page.replace(/(#|$)/, ".md$1")})`, summary];
}

Deno.test("README.md lists the plugins as they tell of themselves", async () => {
  const readme = await Deno.readTextFile(
    new URL("../README.md", import.meta.url),
  );
  const [, table = ""] = readme.split("what it does");
  const rows = (table.split("\n\n")[0] ?? "").split("\n").slice(2)
    .map((line) => line.split("|").slice(1, 3).map((cell) => cell.trim()));
  // Another name of a plugin is on that one's page.
  const listed = ABOUTS.filter(({ type, page = type }) =>
    page === type || page.includes("#")
  );
  const expected = Object.entries(GROUPS).flatMap(([kind, title]) => [
    [`**${title}**`, ""],
    ...listed.filter((about) => about.kind === kind).map(rowOf),
  ]);
  assertEquals(rows, expected);
});
