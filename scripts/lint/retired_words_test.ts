import { assertEquals } from "@std/assert";
import {
  findRetiredWords,
  findRetiredWordsOfPage,
  retiredWords,
} from "./retired_words.ts";
import { testRows } from "./testing.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

Deno.test("cni/retired-words refuses them in comments and texts", async (t) => {
  const message = 'Not "leftover": use "orphan"';
  await testRows(t, retiredWords, [
    ["net/ip.ts", "// An orphan: a leftover is none.", message],
    ["net/ip.ts", "/**\n * Deletes a\n * leftover.\n */", message],
    ["net/ip.ts", 'log("Cannot delete the leftover");', message],
    ["net/ip.ts", "log(`leftover ${name}`);", message],
    ["net/ip.ts", 'const leftover = find("leftover");'],
    ["net/ip.ts", "// The finding `leftover`."],
    ["net/ip.ts", "/*\n * Loaded on\n * demand.\n */"],
    ["net/ip.ts", "// The file is world-readable."],
  ]);
});

Deno.test("findRetiredWordsOfPage() reads prose only", () => {
  const page = "```\nleftover\n```\n\n`leftover`, a demand.\n";
  assertEquals(findRetiredWordsOfPage("README.md", page), [
    'Not "demand": use "requirement"',
  ]);
  assertEquals(findRetiredWords("README.md", "stranded"), [
    'Not "stranded": use "in the wrong namespace"',
  ]);
});

/** Lists the pages of the tree, except those that tools write. */
function listPages(directory = ""): string[] {
  return [...Deno.readDirSync(ROOT + directory)].flatMap((entry) => {
    const path = `${directory}${entry.name}`;
    if (/^(?:\.(?!github)|node_modules$|dist$|build$)/.test(entry.name)) {
      return [];
    }
    if (entry.isDirectory) return listPages(`${path}/`);
    return path.endsWith(".md") ? [path] : [];
  });
}

Deno.test("pages have no retired words", () => {
  const found = listPages().flatMap((path) =>
    findRetiredWordsOfPage(path, Deno.readTextFileSync(ROOT + path))
      .map((message) => `${path}: ${message}`)
  );
  assertEquals(found, []);
});
