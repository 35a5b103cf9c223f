import { assertEquals } from "@std/assert";
import { ConfDirectory } from "../../tests/_harness/conf_directory.ts";
import { FileStamps } from "./file_stamps.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** Long ago, so that nothing of it is too new to be believed. */
const PAST = new Date("2020-01-01T00:00:00Z");

/** Makes a directory with two old files in it, one of them by a link. */
function oldDirectory(): ConfDirectory {
  const directory = new ConfDirectory({ a: "1", "data/b": "2" });
  directory.addLink("link", "data/b");
  for (const name of ["a", "data/b", "data", "."]) {
    Deno.utimeSync(`${directory.path}/${name}`, PAST, PAST);
  }
  return directory;
}

function stampsOf(
  { path }: ConfDirectory,
  names: readonly string[],
  nowMs = Date.now() + 60_000,
): FileStamps {
  const stamps = new FileStamps(() => nowMs);
  stamps.add(names.map((name) => `${path}/${name}`));
  return stamps;
}

Deno.test("FileStamps.isCurrent() notices whatever happens to a path", async (t) => {
  const rows: [string, (path: string) => void, boolean][] = [
    ["nothing", () => {}, true],
    ["it is read", (path) => void Deno.readTextFileSync(`${path}/a`), true],
    [
      "another size",
      (path) => Deno.writeTextFileSync(`${path}/a`, "22"),
      false,
    ],
    ["another time", (path) => Deno.utimeSync(`${path}/a`, 1, 1), false],
    ["a file is replaced by one of that time", (path) => {
      Deno.writeTextFileSync(`${path}/data/new`, "2");
      Deno.utimeSync(`${path}/data/new`, PAST, PAST);
      Deno.renameSync(`${path}/data/new`, `${path}/a`);
      Deno.utimeSync(path, PAST, PAST);
    }, false],
    ["a file is gone", (path) => Deno.removeSync(`${path}/a`), false],
    ["a file comes", (path) => Deno.writeTextFileSync(`${path}/c`, ""), false],
    ["a missing one comes", (path) => {
      Deno.writeTextFileSync(`${path}/missing`, "");
      Deno.utimeSync(path, PAST, PAST);
    }, false],
    [
      "behind a link",
      (path) => Deno.writeTextFileSync(`${path}/data/b`, "9"),
      false,
    ],
    [
      "in a directory that is not watched",
      (path) => Deno.writeTextFileSync(`${path}/data/c`, "9"),
      true,
    ],
  ];
  await eachRow(t, rows, ([, change, isCurrent]) => {
    using directory = oldDirectory();
    const stamps = stampsOf(directory, [".", "a", "link", "missing"]);
    assertEquals(stamps.isCurrent(), true);
    change(directory.path);
    assertEquals(stamps.isCurrent(), isCurrent);
  });
});

Deno.test("FileStamps.isCurrent() does not trust the time of what is new", () => {
  using directory = oldDirectory();
  const now = new Date();
  Deno.utimeSync(`${directory.path}/a`, now, now);
  const stamps = stampsOf(directory, ["a"], now.getTime());
  assertEquals(stamps.isCurrent(), false);
});

Deno.test("FileStamps.isCurrent() does not trust the second of a change", () => {
  using directory = oldDirectory();
  const { ctime } = Deno.statSync(`${directory.path}/a`);
  // A file of the same size and time, written in the same second.
  const late = (ctime?.getTime() ?? 0) + 999;
  assertEquals(stampsOf(directory, ["a"], late).isCurrent(), false);
});

Deno.test("FileStamps.isCurrent() takes a time to come as it is", () => {
  using directory = oldDirectory();
  const future = new Date(Date.now() + 3_600_000);
  Deno.utimeSync(`${directory.path}/a`, future, future);
  assertEquals(stampsOf(directory, ["a"]).isCurrent(), true);
});
