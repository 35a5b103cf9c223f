/**
 * The documentation as a site: `deno task docs` writes it to dist/site.
 *
 * The pages are docs/*.md, and nothing else is written for the site. Links to
 * files of the repository become links to REPOSITORY_URL if that is set, such as
 * https://github.com/example/cni-plugins, and plain text if not.
 */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { env } from "node:process";
import { defineConfig } from "vitepress";
import MOVED from "./moved.json";
import { SEARCH } from "./search.mjs";

/** Two containers and a node, within the page itself. */
const ICON = "data:image/svg+xml," + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="#3451b2">' +
    '<path d="M1 1h5v5H1zM10 1h5v5h-5zM4 10h8v5H4zM3 6h1v2h8V6h1v3H8.5v1h-1V9H3z"/></svg>',
);

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
          /^((?:examples|site)(?:\/.*)?)$/.exec(path)?.[1]?.replace(/^/, "docs/");
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

/** Returns the relative address of a page and its section, such as `cni#add`. */
function toHref(address) {
  return address.replace(/(?=#)|$/, ".html");
}

/**
 * Writes a page at each old address in moved.json that opens the new address.
 * theme/index.js does the same for sections of pages that still exist.
 */
function writeMovedPages({ outDir }) {
  const isOld = (page) => !existsSync(`${outDir}/${page}.html`);
  for (const page of Object.keys(MOVED).filter((old) => !old.includes("#"))) {
    if (!isOld(page)) throw new Error(`moved.json: "${page}" is a page`);
    const sections = Object.fromEntries(
      Object.entries(MOVED).filter(([old]) => old.startsWith(`${page}#`))
        .map(([old, to]) => [old.slice(page.length), toHref(to)]),
    );
    const to = toHref(MOVED[page]);
    writeFileSync(
      `${outDir}/${page}.html`,
      `<!doctype html><meta charset="utf-8"><title>Moved</title>
<script>location.replace((${
        JSON.stringify(sections)
      })[location.hash] ?? "${to}")</script>
<noscript><meta http-equiv="refresh" content="0; url=${to}"></noscript>
<p>This page has moved: <a href="${to}">${to}</a></p>
`,
    );
  }
}

export default defineConfig({
  buildEnd: writeMovedPages,
  title: "CNI plugins",
  description: "Network plugins for Linux containers, in TypeScript",
  // Browsers ask for /favicon.ico if a page names no icon.
  head: [["link", { rel: "icon", href: ICON }]],
  // A copy: pages must be below the directory where Vue is installed.
  srcDir: ".pages",
  outDir: "../../dist/site",
  cacheDir: ".vitepress/cache",
  // Opened from a directory or a sub-path of a server, as well as from its root.
  base: env.DOCS_BASE ?? "/",
  markdown: { config: linkToRepository, anchor: { slugify } },
  themeConfig: {
    search: {
      provider: "local",
      options: { miniSearch: { searchOptions: SEARCH } },
    },
    outline: [2, 3],
    nav: [
      { text: "Quick start", link: "/quick-start" },
      { text: "Install", link: "/install" },
      { text: "Tool", link: "/cni" },
      { text: "Troubleshooting", link: "/troubleshooting" },
      // Not a page of VitePress: `deno doc` writes it.
      { text: "API", link: "/api/index.html", target: "_self" },
    ],
    sidebar: readSidebar(),
    ...repository === undefined
      ? {}
      : { socialLinks: [{ icon: "github", link: repository }] },
  },
});
