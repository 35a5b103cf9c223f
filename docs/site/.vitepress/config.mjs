/**
 * The documentation as a site: `deno task docs` writes it to dist/site.
 *
 * The pages are docs/*.md, and nothing else is written for the site. Links to
 * files of the repository become links to REPOSITORY_URL if that is set, such as
 * https://github.com/example/cni-plugins, and plain text if not.
 */

import { readFileSync } from "node:fs";
import { env } from "node:process";
import { defineConfig } from "vitepress";

const repository = env.REPOSITORY_URL?.replace(/\/$/, "");

/** Returns the sidebar: the headings and links of docs/index.md, in their order. */
function readSidebar() {
  const index = readFileSync(
    new URL("../../index.md", import.meta.url),
    "utf8",
  );
  return index.split(/^## /m).slice(1).map((section) => ({
    text: section.slice(0, section.indexOf("\n")),
    collapsed: false,
    items: [...section.matchAll(/\[([^\]]+)\]\(([\w-]+)\.md\)/g)]
      .map(([, text, page]) => ({
        text: text.replaceAll("`", ""),
        link: `/${page}`,
      })),
  }));
}

/** Makes links out of docs/ lead to the repository. */
function linkToRepository(md) {
  md.core.ruler.push("repository_links", ({ tokens }) => {
    for (const { children } of tokens) {
      const open = [];
      for (const token of children ?? []) {
        if (token.type === "link_close") {
          const link = open.pop();
          if (link.tag === "span") token.tag = "span";
        }
        if (token.type !== "link_open") continue;
        open.push(token);
        const [path, hash = ""] = token.attrGet("href").split(/(?=#)/);
        const file = /^\.\.\/(.+)$/.exec(path)?.[1] ??
          /^(examples\/.+|site\/.*)$/.exec(path)?.[1]?.replace(/^/, "docs/");
        if (file === undefined) continue;
        if (repository !== undefined) {
          token.attrSet("href", `${repository}/blob/main/${file}${hash}`);
        } else {
          token.tag = "span";
          token.attrs = [["title", file]];
        }
      }
    }
  });
}

/** Names a heading as GitHub does, so that links to it work there and here. */
function slugify(heading) {
  return heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

export default defineConfig({
  title: "CNI plugins",
  description: "Network plugins for Linux containers, in TypeScript",
  // A copy: pages must be below the folder where Vue is installed.
  srcDir: ".pages",
  outDir: "../../dist/site",
  cacheDir: ".vitepress/cache",
  // Opened from a folder or a sub-path of a server, as well as from its root.
  base: env.DOCS_BASE ?? "/",
  markdown: { config: linkToRepository, anchor: { slugify } },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Quick start", link: "/quick-start" },
      { text: "Install", link: "/install" },
      { text: "Tool", link: "/cni" },
      { text: "Troubleshooting", link: "/troubleshooting" },
    ],
    sidebar: readSidebar(),
    ...repository === undefined
      ? {}
      : { socialLinks: [{ icon: "github", link: repository }] },
  },
});
