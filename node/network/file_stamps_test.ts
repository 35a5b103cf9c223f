import { assertEquals } from "@std/assert";
import { ConfFolder } from "../../tests/_harness/conf_folder.ts";
import { FileStamps } from "./file_stamps.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** Long ago, so that nothing of it is too new to be believed. */
const PAST = new Date("2020-01-01T00:00:00Z");

/** Makes a directory with two old files in it, one of them by a link. */
function oldFolder(): ConfFolder {
  const folder = new ConfFolder({ a: "1", "data/b": "2" });
  folder.addLink("link", "data/b");
  for (const name of ["a", "data/b", "data", "."]) {
    Deno.utimeSync(`${folder.path}/${name}`, PAST, PAST);
  }
  return folder;
}

function stampsOf({ path }: ConfFolder, names: readonly string[]): FileStamps {
  const stamps = new FileStamps();
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
      "in a folder that is not watched",
      (path) => Deno.writeTextFileSync(`${path}/data/c`, "9"),
      true,
    ],
  ];
  await eachRow(t, rows, ([, change, isCurrent]) => {
    using folder = oldFolder();
    const stamps = stampsOf(folder, [".", "a", "link", "missing"]);
    assertEquals(stamps.isCurrent(), true);
    change(folder.path);
    assertEquals(stamps.isCurrent(), isCurrent);
  });
});

Deno.test("FileStamps.isCurrent() does not trust the time of what is new", () => {
  using folder = oldFolder();
  Deno.utimeSync(`${folder.path}/a`, new Date(), new Date());
  assertEquals(stampsOf(folder, ["a"]).isCurrent(), false);
});

Deno.test("FileStamps.isCurrent() takes a time to come as it is", () => {
  using folder = oldFolder();
  const future = new Date(Date.now() + 3_600_000);
  Deno.utimeSync(`${folder.path}/a`, future, future);
  assertEquals(stampsOf(folder, ["a"]).isCurrent(), true);
});
