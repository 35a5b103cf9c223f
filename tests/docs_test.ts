/**
 * What the documentation says of the whole project: errors, dependencies,
 * links and examples.
 */

import project from "../deno.json" with { type: "json" };
import MOVED from "../docs/site/.vitepress/moved.json" with { type: "json" };
import site from "../docs/site/package.json" with { type: "json" };
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { loadAll } from "js-yaml";
import { ErrorCode } from "../base/error.ts";
import { METADATA } from "../plugins/lists/metadata.ts";
import { pluginNames } from "../plugins/registry.ts";
import { withPluginParts } from "../scripts/schemas/plugin_pages.ts";
import { PluginDirectory } from "./_harness/plugin_directory.ts";
import { testRows } from "./_harness/table.ts";
import { runCni } from "./_harness/tool_call.ts";

/** A text; `…` stands for what varies. */
interface ErrorText {
  readonly path: string;
  readonly code: number;
  readonly text: string;
}

/** A literal of TypeScript, with a sum's other parts. */
const LITERAL = /^\s*(?:\+\s*)?(["'`])((?:\\.|(?!\1)[^])*)\1/;

/** The name, parameters, code and message of a function that makes errors. */
const MAKER = new RegExp(
  /(?:function (\w+)|const (\w+) =) ?\(([^)]*)\): (?:CniError|UsageError|never)/
    .source +
    /\s(?:(?!\n\})[^])*?new CniError\(\s*ErrorCode\.(\w+),\s*([^;]*)/.source,
  "g",
);

/** Lists the texts in modules, given by path. */
function listErrorTexts(
  sources: ReadonlyMap<string, string>,
): ErrorText[] {
  return [...sources].flatMap(([path, source]) => [
    ...listDirect(source).map((found) => ({ path, ...found })),
    ...listByMakers(sources, path),
  ]);
}

type Found = Omit<ErrorText, "path">;

function listDirect(source: string): Found[] {
  return [...source.matchAll(/(?:new CniError|super)\(\s*ErrorCode\.(\w+),/g)]
    .map((match) => ({
      code: codeOf(match[1]),
      text: readText(source.slice(match.index + match[0].length)),
    }))
    .filter(({ text }) => text !== "");
}

/** Lists what this module and others give to its functions that make errors. */
function listByMakers(
  sources: ReadonlyMap<string, string>,
  path: string,
): ErrorText[] {
  const file = path.slice(path.lastIndexOf("/") + 1);
  return [...sources.get(path)?.matchAll(MAKER) ?? []].flatMap((match) => {
    const [, declared, assigned, parameters = "", code, message = ""] = match;
    const name = declared ?? assigned ?? "";
    const names = parameters.split(",").map((one) => one.split(":")[0]?.trim());
    const at = names.indexOf(/^\w+/.exec(message)?.[0]);
    if (at === -1) return [];
    const users = [...sources].filter(([other, source]) =>
      other === path ||
      new RegExp(`import[^;]*\\b${name}\\b[^;]*/${file}"`).test(source)
    );
    return users.flatMap(([user, source]) =>
      listArguments(source, name, at)
        .map((text) => ({ path: user, code: codeOf(code), text }))
    );
  });
}

/** Lists the literals that are a function's argument of a position. */
function listArguments(source: string, name: string, at: number): string[] {
  return [...source.matchAll(new RegExp(`\\b${name}\\(`, "g"))]
    .map(({ index, 0: call }) => {
      let rest = source.slice(index + call.length);
      for (let skipped = 0; skipped < at; skipped++) {
        rest = rest.slice(rest.indexOf(",") + 1);
      }
      return readText(rest);
    })
    .filter((text) => text !== "");
}

function codeOf(name = ""): number {
  return ErrorCode[name as keyof typeof ErrorCode];
}

function readText(source: string): string {
  let rest = source;
  let text = "";
  for (let part; (part = LITERAL.exec(rest)) !== null;) {
    text += part[2] ?? "";
    rest = rest.slice(part[0].length);
  }
  const plain = text.replace(/\$\{(?:[^{}]|\{[^}]*\})*\}/g, "…");
  // A template in a template is not understood.
  return plain.includes("${") ? "" : plain;
}

const ROOT = new URL("../", import.meta.url).pathname;

const read = (path: string): string => Deno.readTextFileSync(ROOT + path);

/** Lists files below a directory of the project with an end. */
function listFiles(directory: string, end: string): string[] {
  return [...Deno.readDirSync(ROOT + directory)].flatMap((entry) => {
    const path = `${directory}/${entry.name}`;
    // Of the site: packages, and copies of the pages.
    if (/^(node_modules|\.)/.test(entry.name)) return [];
    if (entry.isDirectory) return listFiles(path, end);
    return path.endsWith(end) ? [path] : [];
  });
}

/** Turns a row's pattern, in which `…` is any text, into an expression. */
function toRegExp(pattern: string): RegExp {
  const parts = pattern.split("…").map((part) => RegExp.escape(part.trim()));
  return new RegExp(`^\\s*${parts.join("[^]*")}\\s*$`);
}

/** Returns the words alone: a literal may be a sum of several. */
function wordsOf(text: string): string {
  return text.replace(/[^\p{L}\d]+/gu, " ").trim();
}

Deno.test("docs: errors.md lists each message of the code under its error code", () => {
  const sections = new Map(
    read("docs/errors.md").split(/^## Code /m).slice(1)
      .map((section) => [Number.parseInt(section), section]),
  );
  assertEquals(
    [...sections.keys()].toSorted(),
    Object.values(ErrorCode).map(Number).toSorted(),
  );
  const directories = [
    ...[
      "base",
      "cni",
      "metadata",
      "ffi",
      "ipam",
      "kube",
      "libcni",
      "node",
      "plugins",
    ],
    ...["daemon", "cli", "testing/conform", "launcher", "scripts/stubs"],
  ];
  const sources = new Map(
    directories.flatMap((
      directory,
    ) => [...listFiles(directory, ".ts"), ...listFiles(directory, ".h")])
      .filter((path) => !path.endsWith("_test.ts")).map((
        path,
      ) => [path, read(path)]),
  );
  const texts = listErrorTexts(sources);
  assert(texts.length > 250, `${texts.length}`);
  const all = wordsOf([...sources.values()].join("\n"));
  const wrong = [...sections].flatMap(([code, section]) => {
    const cells = section.matchAll(/\| ((?:`[^`|]+`(?:<br>|, )?)+) +(?=\|)/g);
    return [...cells].flatMap(([, cell = ""]) => cell.split(/<br>|, (?=`)/))
      .map((pattern) => pattern.slice(1, -1))
      .filter((pattern) => {
        const found = texts.filter(({ text }) => toRegExp(pattern).test(text));
        return found.length > 0
          ? !found.some((text) => text.code === code)
          : !pattern.split("…").every((part) => all.includes(wordsOf(part)));
      }).map((pattern) => `${code}: ${pattern}`);
  });
  assertEquals(wrong, [], "no message of the code reads so, or has this code");
});

Deno.test("docs: dependencies.md lists exactly the dependencies", () => {
  const named = [...read("docs/dependencies.md").matchAll(/^\| (`.*?`) *\|/gm)]
    .flatMap(([, cell = ""]) => cell.split(/, /))
    .map((name) => name.replaceAll("`", ""));
  const packages = Object.keys(project.imports)
    .map((name) => name.replace(/^((@[^/]+\/)?[^/]+).*/, "$1"));
  assertEquals(
    named.toSorted(),
    [...packages, ...Object.keys(site.devDependencies)].toSorted(),
  );
});

/** Lists the pages that people read. */
function listPages(): string[] {
  const root = [...Deno.readDirSync(ROOT)].map(({ name }) => name)
    .filter((name) => name.endsWith(".md"));
  return [...root, ...listFiles("docs", ".md"), ...listFiles("deploy", ".md")];
}

/** Lists the anchors of a page, as GitHub names them. */
function listAnchors(page: string): string[] {
  const prose = page.replace(/^```[^]*?^```/gm, "");
  const seen = new Map<string, number>();
  return [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => {
    const text = heading.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").toLowerCase();
    const slug = text.replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-");
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
}

/** Lists the targets of links in a page, without those to other sites. */
function listLinks(page: string): string[] {
  const prose = page.replace(/^```[^]*?^```/gm, "").replace(/`[^`\n]*`/g, "")
    .replace(/<!--[^]*?-->/g, "");
  const inline = [...prose.matchAll(/\]\(([^)\s]+)[^)]*\)/g)];
  const references = [...prose.matchAll(/^\[[^\]]+\]: (\S+)$/gm)];
  return [...inline, ...references].map(([, target = ""]) => target)
    .filter((target) => !/^[a-z]+:/.test(target));
}

Deno.test("docs: every link leads to a file, and to a heading in it", () => {
  const dead: string[] = [];
  let count = 0;
  for (const from of listPages()) {
    for (const link of listLinks(read(from))) {
      count++;
      const { pathname, hash } = new URL(link, `file:///${from}`);
      const path = decodeURIComponent(pathname.slice(1));
      const target = path === "" ? "." : path;
      const isThere = exists(ROOT + target);
      const isHeading = hash === "" || isThere && target.endsWith(".md") &&
          listAnchors(read(target)).includes(decodeURI(hash.slice(1)));
      if (!isThere || !isHeading) dead.push(`${from}: ${link}`);
    }
  }
  assert(count > 200, `${count}`);
  assertEquals(dead, []);
});

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

Deno.test("docs: an old address leads to a page and to a heading in it", () => {
  const has = (address: string): boolean => {
    const [page = "", anchor] = address.split("#");
    const path = `docs/${page}.md`;
    return exists(ROOT + path) &&
      (anchor === undefined || listAnchors(read(path)).includes(anchor));
  };
  const entries = Object.entries(MOVED);
  assertEquals(entries.filter(([, to]) => !has(to)), [], "no such address");
  assertEquals(entries.filter(([old]) => has(old)), [], "it is still there");
});

Deno.test("docs: every page is in index.md", () => {
  const pages = [...Deno.readDirSync(`${ROOT}docs`)].map(({ name }) => name)
    .filter((name) => name.endsWith(".md") && name !== "index.md");
  const linked = listLinks(read("docs/index.md"));
  const others = pages.filter((page) => !linked.includes(page));
  assertEquals(others, [], "docs/index.md lacks links to these pages");
  assertEquals(linked.toSorted(), [...new Set(linked)].toSorted());
});

Deno.test("docs: every example is valid", async (t) => {
  using plugins = new PluginDirectory();
  const paths = [
    ...listFiles("docs/examples", ".conflist")
      // Of a plugin that the reader writes.
      .filter((path) => !path.includes("/neighbors/"))
      .map((path) => ROOT + path),
  ];
  for (const path of listFiles("docs/examples", ".yaml")) {
    for (const object of loadAll(read(path)) as Manifest[]) {
      const config = object.spec.config;
      if (config === undefined) continue;
      const isList = config.includes('"plugins"');
      const name = `${object.metadata.name}.conf${isList ? "list" : ""}`;
      paths.push(plugins.addFile(name, config));
    }
  }
  assert(paths.length >= 8, paths.join());
  for (const name of pluginNames) plugins.addOwnExecutable(name);
  for (const path of paths) {
    await t.step(path.slice(path.lastIndexOf("/") + 1), async () => {
      const { stdout, stderr } = await runCni(
        ...["validate", path, "--json"],
        ...[`--cni-path=${plugins.path}`, "--conf-dir=/nonexistent"],
      );
      assertEquals(stderr, "");
      const { problems } = JSON.parse(stdout);
      assertEquals(
        // The machine that runs the tests may have other links.
        problems.filter(({ message }: Manifest) => !/"eth\d"/.test(message)),
        [],
      );
    });
  }
});

/** Pages of plugins that stand for more than one, or have no page. */
const SHARED_PAGES: Readonly<Record<string, string>> = {
  contivk8s: "remote",
  passthru: "multus-networks",
};

testRows(
  "docs: a plugin's page has a diagram, an example and the effect of DEL",
  pluginNames.map((type): [string, string] => [
    type,
    SHARED_PAGES[type] ?? type,
  ]),
  ([, name]: [string, string]) => {
    const text = read(`docs/${name}.md`);
    if (name === "multus-networks") return;
    assertMatch(text, /^```\n[^`]*(?:─|──▶)/m);
    assertMatch(text, /^```json$/m);
    // multus: on a page of its own.
    if (name === "multus") return;
    assertMatch(text, /^\| DEL |^- \*\*DEL\*\* |^### What DEL/m);
    if (name !== "chain") assertMatch(text, /^## Differences from /m);
  },
);

/** The part of a page that is about a plugin. */
function readPage(type: string): string {
  const page = read(`docs/${SHARED_PAGES[type] ?? type}.md`);
  if (SHARED_PAGES[type] !== "multus-networks") return page;
  return page.slice(page.indexOf(`### ${type}`)).split(/^## /m)[0] ?? "";
}

testRows(
  "docs: a plugin's page states its status",
  pluginNames,
  (type: string) => {
    const status = METADATA.get(type)?.status;
    assert(status !== undefined);
    assertStringIncludes(readPage(type), `**Status:** ${status}.`);
  },
);

Deno.test("docs: generated parts of pages equal the output of deno task schemas", async () => {
  const words = (text: string): string =>
    text.replace(/-{3,}/g, "---").replace(/\s+/g, " ");
  for (const path of listFiles("docs", ".md")) {
    const page = read(path);
    assertEquals(words(page), words(await withPluginParts(page)), path);
  }
});

// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
type Manifest = any;

Deno.test("docs: plugins never come first in PATH, where one hides bridge(8)", () => {
  const pages = ["README.md", ...listFiles("docs", ".md")];
  const first = pages.filter((page) =>
    /(^|\s)PATH=(?!\$PATH)\S*:\$PATH/m.test(read(page))
  );
  assertEquals(first, []);
});
