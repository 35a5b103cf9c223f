// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assert, assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { createLog } from "../../../base/log/log.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import { Executable, Links } from "./executable.ts";
import { NotYetError } from "./steps.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** Creates a directory with the source, and a directory to install to. */
function prepare(): {
  directory: ConfDirectory;
  executable: Executable;
  bin: string;
} {
  const directory = new ConfDirectory({ source: "one", "bin/other": "" });
  const bin = `${directory.path}/bin`;
  const executable = new Executable({
    source: `${directory.path}/source`,
    directory: bin,
    links: [],
    replacesOthers: false,
  }, createLog({}, () => {}));
  return { directory, executable, bin };
}

Deno.test("Executable.ensure() copies a different executable, and waits before it restores the copy", async () => {
  const { directory, executable, bin } = prepare();
  using _directory = directory;
  const path = `${bin}/cni-multus`;
  await executable.ensure();
  assertEquals(Deno.readTextFileSync(path), "one");
  assertEquals(Deno.readLinkSync(`${bin}/multus`), "cni-multus");
  Deno.writeTextFileSync(path, "another");
  await executable.ensure();
  assertEquals(Deno.readTextFileSync(path), "one");
  Deno.writeTextFileSync(path, "a third one");
  await assertRejects(() => executable.ensure(), NotYetError, path);
  directory.add("source", "four");
  await assertRejects(() => executable.ensure(), NotYetError, path);
});

Deno.test("Executable.ensure() copies a new source immediately", async () => {
  const { directory, executable, bin } = prepare();
  using _directory = directory;
  await executable.ensure();
  for (const content of ["two", "three", "four"]) {
    directory.add("source", content);
    await executable.ensure();
    assertEquals(Deno.readTextFileSync(`${bin}/multus`), content);
  }
});

Deno.test("Executable.ensure() detects a change that keeps the source's modification time", async () => {
  const { directory, executable, bin } = prepare();
  using _directory = directory;
  const source = `${directory.path}/source`;
  const { mtime } = Deno.statSync(source);
  assert(mtime !== null);
  for (const content of ["one", "one", "two"]) {
    directory.add("source", content);
    Deno.utimeSync(source, mtime, mtime);
    await executable.ensure();
    assertEquals(Deno.readTextFileSync(`${bin}/multus`), content);
  }
});

Deno.test("Executable.ensure() detects a replaced target", async () => {
  const { directory, executable, bin } = prepare();
  using _directory = directory;
  const { copyFile } = Deno;
  try {
    Deno.copyFile = async (from, to): Promise<void> => {
      await copyFile(from, to);
      directory.add("next", "two");
      Deno.renameSync(`${directory.path}/next`, from);
    };
    await executable.ensure();
  } finally {
    Deno.copyFile = copyFile;
  }
  assertEquals(Deno.readTextFileSync(`${bin}/multus`), "one");
  await executable.ensure();
  assertEquals(Deno.readTextFileSync(`${bin}/multus`), "two");
});

Deno.test("Executable.ensure() leaves no partial file if it cannot copy", async () => {
  const { directory, executable, bin } = prepare();
  using _directory = directory;
  Deno.mkdirSync(`${bin}/cni-multus`);
  await assertRejects(() => executable.ensure(), CniError, "Cannot copy");
  Deno.removeSync(`${directory.path}/source`);
  await assertRejects(() => executable.ensure(), CniError, "Cannot compare");
  const names = [...Deno.readDirSync(bin)].map(({ name }) => name).sort();
  assertEquals(names, ["cni-multus", "other"]);
});

/** Creates links `a` and `b` in a directory; returns the result at `a`. */
function link(
  directory: ConfDirectory,
  replacesOthers = false,
): { a: string; log: string } {
  let log = "";
  const links = new Links(
    {
      directory: directory.path,
      target: "t",
      links: ["a", "b"],
      replacesOthers,
    },
    createLog({}, (line) => log += line),
  );
  links.ensure();
  links.ensure();
  assertEquals(Deno.readTextFileSync(`${directory.path}/b`), "ours");
  return { a: readLink(`${directory.path}/a`), log };
}

function readLink(path: string): string {
  const { isSymlink } = Deno.lstatSync(path);
  return isSymlink
    ? `-> ${Deno.readLinkSync(path)}`
    : Deno.readTextFileSync(path);
}

Deno.test("Links.ensure() creates links next to the executable", async (t) => {
  const rows: [string, (directory: ConfDirectory) => void, boolean, string][] =
    [
      ["where nothing is", () => {}, false, "-> t"],
      [
        "but not over a file",
        (directory) => directory.add("a", "other"),
        false,
        "other",
      ],
      [
        "over a file, if it is to",
        (directory) => directory.add("a", "other"),
        true,
        "-> t",
      ],
      [
        "but not over another link",
        (directory) => directory.addLink("a", "/bin/sh"),
        false,
        "-> /bin/sh",
      ],
      [
        "but not over a broken link",
        (directory) => directory.addLink("a", "x"),
        false,
        "-> x",
      ],
      [
        "over a broken link, if it is to",
        (directory) => directory.addLink("a", "x"),
        true,
        "-> t",
      ],
      [
        "but not over a hard link",
        ({ path }) => Deno.linkSync(`${path}/t`, `${path}/a`),
        true,
        "ours",
      ],
      [
        "whatever a crash has left",
        (directory) => directory.addLink("a.unfinished", "x"),
        false,
        "-> t",
      ],
    ];
  await eachRow(t, rows, ([, prepare, replacesOthers, expected]) => {
    using directory = new ConfDirectory({ t: "ours" });
    prepare(directory);
    assertEquals(link(directory, replacesOthers).a, expected);
  });
});

Deno.test("Links.ensure() reports once that it keeps a file", () => {
  using directory = new ConfDirectory({ t: "ours", a: "other" });
  const { log } = link(directory);
  assertEquals(log.match(/kept a plugin/g)?.length, 1);
});

Deno.test("Links.ensure() keeps a copy of the file that it replaced last", () => {
  using directory = new ConfDirectory({ t: "ours", a: "first" });
  directory.addLink("b", "x");
  const options = {
    directory: directory.path,
    target: "t",
    links: ["a", "b", "c"],
    replacesOthers: true,
    kept: ".kept",
  };
  const links = new Links(options, createLog({}, () => {}));
  links.ensure();
  const kept = `${directory.path}/.kept`;
  assertEquals(readLink(`${kept}/a`), "first");
  assertEquals(readLink(`${kept}/b`), "-> x");
  // Another installer, which replaces the file instead of writing through it.
  directory.add("second", "second");
  Deno.renameSync(`${directory.path}/second`, `${directory.path}/a`);
  links.ensure();
  assertEquals(readLink(`${directory.path}/a`), "-> t");
  assertEquals(readLink(`${kept}/a`), "second");
  assertEquals([...Deno.readDirSync(kept)].length, 2);
});
