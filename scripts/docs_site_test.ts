import { assertEquals, assertStringIncludes } from "@std/assert";
import QUESTIONS from "../docs/site/questions.json" with { type: "json" };
import { hasCommand, ignoreUnless } from "../testing/capabilities.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { buildPages, installPackages } from "./docs_site.ts";
import { exists } from "../base/files/io.ts";

const SITE = new URL("../docs/site/", import.meta.url);

/** Where npm puts what the site's search is made of. */
const MINISEARCH = new URL(
  "node_modules/minisearch/dist/es/index.js",
  SITE,
);

/** Whether npm has the site's packages here, or could install them. */
const hasPackages = exists(MINISEARCH.pathname) ||
  Deno.env.get("CNI_TEST_NO_INSTALL") !== "1" && hasCommand("npm") &&
    installPackages() === 0;

Deno.test("deno task docs says what it needs without a network", async () => {
  using directory = new PluginDirectory();
  directory.add(
    "npm",
    `echo "npm $*" >> ${directory.path}/calls; exit 1`,
  );
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-config", "scripts/docs_site.ts"],
    cwd: new URL("..", import.meta.url),
    env: { PATH: `${directory.path}:/usr/bin:/bin` },
  }).output();
  assertEquals(code, 1);
  const said = new TextDecoder().decode(stderr);
  assertStringIncludes(said, "deno task docs needs the packages of docs/site/");
  assertEquals(
    directory.read("calls"),
    "npm ci --prefer-offline --fetch-retries=0 --no-audit --no-fund\n",
  );
});

const needsPackages = ignoreUnless(
  hasPackages,
  "needs the site's packages of npm",
);

Deno.test({
  name: "the site's search finds the section or page that answers a question" +
    needsPackages.suffix,
  ignore: needsPackages.ignore,
  async fn(): Promise<void> {
    const directory = await Deno.makeTempDir({ prefix: "docs-site-" });
    try {
      assertEquals(buildPages(directory), 0);
      const search = await openSearch(`${directory}/assets/chunks`);
      const wrong = Object.entries<string[]>(QUESTIONS)
        .map(([text, places]) => ({ text, places, first: search(text) }))
        .filter(({ places, first }) =>
          !places.some((it) => first.startsWith(it))
        );
      assertEquals(wrong, []);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

/** Opens the index of the site as VPLocalSearchBox.vue of VitePress does; returns a function that names the first result. */
async function openSearch(chunks: string): Promise<(text: string) => string> {
  const index = (await Array.fromAsync(Deno.readDir(chunks)))
    .find(({ name }) => name.startsWith("@localSearchIndex"));
  const { default: json } = await import(`file://${chunks}/${index?.name}`);
  const { default: MiniSearch } = await import(MINISEARCH.href);
  const { SEARCH } = await import(
    new URL(".vitepress/search.mjs", SITE).href
  );
  const search = MiniSearch.loadJSON(json, {
    fields: ["title", "titles", "text"],
    storeFields: ["title", "titles"],
    searchOptions: { boost: { title: 4, text: 2, titles: 1 }, ...SEARCH },
  });
  return (text) =>
    `${search.search(text)[0]?.id}`.replace(/^.*\//, "").replace(".html", "");
}
