import { assertEquals, assertThrows } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { CniError } from "../../base/error.ts";
import { findExecutable, splitPath } from "./find.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

testRows<[string, string[]]>("splitPath() leaves out empty elements", [
  ["", []],
  ["/a", ["/a"]],
  ["/a:/b", ["/a", "/b"]],
  [":/a::/b:", ["/a", "/b"]],
  [":", []],
  ["/a b;/c", ["/a b;/c"]],
], ([path, directories]) => {
  assertEquals(splitPath(path), directories);
}, ([path]) => JSON.stringify(path));

/** Three directories with a plugin or something of its name in each. */
function makeDirectories(): Disposable & { first: string; second: string } {
  const stack = new DisposableStack();
  const [first, second] = [new PluginDirectory(), new PluginDirectory()];
  stack.use(first);
  stack.use(second);
  first.add("both", "");
  second.add("both", "");
  second.add("only-second", "");
  first.addFile("not-executable", "", 0o644);
  Deno.mkdirSync(`${first.path}/directory-first`);
  second.add("directory-first", "");
  Deno.symlinkSync(`${second.path}/both`, `${first.path}/linked`);
  Deno.symlinkSync(`${first.path}/absent`, `${first.path}/dangling`);
  second.add("dangling", "");
  new Deno.Command("mkfifo", { args: [`${first.path}/fifo`] }).outputSync();
  return {
    first: first.path,
    second: second.path,
    [Symbol.dispose]: () => stack.dispose(),
  };
}

Deno.test("findExecutable() finds the first regular file of the name", async (t) => {
  using directories = makeDirectories();
  const { first, second } = directories;
  const rows: [name: string, type: string, expected: string][] = [
    ["the first of two", "both", `${first}/both`],
    ["in the second directory", "only-second", `${second}/only-second`],
    [
      "a file that is not executable",
      "not-executable",
      `${first}/not-executable`,
    ],
    ["no directory", "directory-first", `${second}/directory-first`],
    ["through a symbolic link", "linked", `${first}/linked`],
    ["no dangling link", "dangling", `${second}/dangling`],
  ];
  await eachRow(t, rows, ([, type, expected]) => {
    assertEquals(
      findExecutable(type, ["/nonexistent", first, second]),
      expected,
    );
  });
});

Deno.test("findExecutable() answers a path that is not searched for in PATH", () => {
  using directory = new PluginDirectory();
  directory.add("both", "");
  const before = Deno.cwd();
  Deno.chdir(directory.path);
  try {
    assertEquals(findExecutable("both", ["."]), "./both");
    assertEquals(findExecutable("both", ["./"]), "./both");
  } finally {
    Deno.chdir(before);
  }
});

Deno.test("findExecutable() refuses what it cannot find", async (t) => {
  using directories = makeDirectories();
  const { first, second } = directories;
  const rows: [string, string, string[], number, string][] = [
    ["no name", "", [first], 7, "no plugin name provided"],
    ["a path", "../both", [first], 7, "invalid plugin name: ../both"],
    ["an absolute path", "/bin/sh", [first], 7, "invalid plugin name: /bin/sh"],
    ["no directories", "both", [], 4, "no paths provided"],
    [
      "another name",
      "none",
      [first, second],
      999,
      `failed to find plugin "none" in path [${first} ${second}]`,
    ],
    [
      "a directory",
      "..",
      [first],
      999,
      `failed to find plugin ".." in path [${first}]`,
    ],
    [
      "a pipe",
      "fifo",
      [first],
      999,
      `failed to find plugin "fifo" in path [${first}]`,
    ],
    [
      "a NUL",
      "both\0",
      [first],
      999,
      `failed to find plugin "both\0" in path [${first}]`,
    ],
  ];
  await eachRow(t, rows, ([, type, path, code, msg]) => {
    const error = assertThrows(() => findExecutable(type, path), CniError);
    assertEquals(error.toObject("1.1.0"), { cniVersion: "1.1.0", code, msg });
  });
});
