// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import { assert, assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { createLog } from "../../../base/log/log.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import { Executable } from "./executable.ts";
import { NotYetError } from "./steps.ts";

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

Deno.test("Executable.ensure() copies what differs, and is not quick to fight", async () => {
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

Deno.test("Executable.ensure() is not held up by a fight if its source is new", async () => {
  const { directory, executable, bin } = prepare();
  using _directory = directory;
  await executable.ensure();
  for (const content of ["two", "three", "four"]) {
    directory.add("source", content);
    await executable.ensure();
    assertEquals(Deno.readTextFileSync(`${bin}/multus`), content);
  }
});

Deno.test("Executable.ensure() notices a change that the time of its source hides", async () => {
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

Deno.test("Executable.ensure() notices what takes the place of what it copies", async () => {
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

Deno.test("Executable.ensure() leaves nothing behind when it cannot copy", async () => {
  const { directory, executable, bin } = prepare();
  using _directory = directory;
  Deno.mkdirSync(`${bin}/cni-multus`);
  await assertRejects(() => executable.ensure(), CniError, "Cannot copy");
  Deno.removeSync(`${directory.path}/source`);
  await assertRejects(() => executable.ensure(), CniError, "Cannot compare");
  const names = [...Deno.readDirSync(bin)].map(({ name }) => name).sort();
  assertEquals(names, ["cni-multus", "other"]);
});
