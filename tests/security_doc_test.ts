/**
 * Every row of docs/security.md names a test that exists.
 */

import { assert } from "@std/assert";

const ROOT = new URL("..", import.meta.url);

/** Reads the tests that the page names: file, and a part of the test's name. */
function listNamed(): [file: string, name: string][] {
  const text = Deno.readTextFileSync(new URL("docs/security.md", ROOT));
  return text.split("\n").flatMap((line) => {
    const [, file, name] = /\| `([\w/.]+_test\.ts)`: (.+?) +\|$/.exec(line) ??
      [];
    return file === undefined || name === undefined ? [] : [[file, name]];
  });
}

Deno.test("docs/security.md names tests that exist", async (t) => {
  const named = listNamed();
  assert(named.length > 30, `${named.length}`);
  for (const [file, name] of named) {
    await t.step(`${file}: ${name}`, () => {
      const text = Deno.readTextFileSync(new URL(file, ROOT));
      assert(text.includes(name));
    });
  }
});

Deno.test("docs/security.md has a test in every row of a threat", () => {
  const text = Deno.readTextFileSync(new URL("docs/security.md", ROOT));
  const tables = text.split(/^## /m).filter((part) =>
    part.includes("| threat ")
  );
  const rows = tables.flatMap((part) =>
    part.split("\n").filter((line) =>
      line.startsWith("| ") && !/^\| (threat|-)/.test(line)
    )
  );
  assert(rows.every((row) => row.includes("_test.ts`: ")), rows.join("\n"));
});
