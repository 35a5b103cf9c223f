import { assertEquals } from "@std/assert";
import { ifPossible } from "../cni/files/io.ts";
import type { About, PluginKind } from "../cni/tools/about.ts";
import { ABOUTS, findAbout } from "./abouts.ts";
import { KEYS } from "./keys.ts";
import { LEFTOVERS } from "./leftovers.ts";
import { NEEDS } from "./needs.ts";
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
  const more = [...LEFTOVERS, ...NEEDS].map(({ type }) => type);
  assertEquals(
    [...named, ...more].filter((type) => findAbout(type) === undefined),
    [],
  );
});

Deno.test("each file beside a plugin is in the list of its name", async () => {
  for (const name of ["about", "keys", "leftovers", "needs"]) {
    const list = name === "about" ? "abouts" : name;
    const file = new URL(`${list}.ts`, import.meta.url);
    const text = await Deno.readTextFile(file);
    for (const folder of ["./", "../ipam/"]) {
      const root = new URL(folder, import.meta.url);
      for await (const { name: type, isDirectory } of Deno.readDir(root)) {
        const path = `${type}/${name}.ts`;
        const isThere = isDirectory &&
          ifPossible(() => Deno.statSync(new URL(path, root))) !== undefined;
        assertEquals([path, isThere], [path, text.includes(`/${path}"`)]);
      }
    }
  }
});

/** The groups of README's table. */
const GROUPS: Readonly<Record<PluginKind, string>> = {
  interface: "Interfaces",
  ipam: "Addresses",
  chained: "After an interface",
  meta: "Several plugins",
};

function rowOf({ type, page = type }: About): (string | undefined)[] {
  const summary = KEYS.find((one) => one.type === type)?.summary;
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
