// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { createLog } from "../../../cni/log/log.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { Executable } from "./executable.ts";
import { NotYetError } from "./steps.ts";

/** Creates a folder with the source, and a folder to install to. */
function prepare(): {
  folder: ConfFolder;
  executable: Executable;
  bin: string;
} {
  const folder = new ConfFolder({ source: "one", "bin/other": "" });
  const bin = `${folder.path}/bin`;
  const executable = new Executable({
    source: `${folder.path}/source`,
    folder: bin,
    links: [],
    replacesOthers: false,
  }, createLog({}, () => {}));
  return { folder, executable, bin };
}

Deno.test("Executable.ensure() copies what differs, and is not quick to fight", async () => {
  const { folder, executable, bin } = prepare();
  using _folder = folder;
  const path = `${bin}/cni-multus`;
  await executable.ensure();
  assertEquals(Deno.readTextFileSync(path), "one");
  assertEquals(Deno.readLinkSync(`${bin}/multus`), "cni-multus");
  Deno.writeTextFileSync(path, "two");
  await executable.ensure();
  assertEquals(Deno.readTextFileSync(path), "one");
  Deno.writeTextFileSync(path, "three");
  await assertRejects(() => executable.ensure(), NotYetError, path);
  folder.add("source", "four");
  await assertRejects(() => executable.ensure(), NotYetError, path);
});

Deno.test("Executable.ensure() is not held up by a fight if its source is new", async () => {
  const { folder, executable, bin } = prepare();
  using _folder = folder;
  await executable.ensure();
  for (const content of ["two", "three", "four"]) {
    folder.add("source", content);
    await executable.ensure();
    assertEquals(Deno.readTextFileSync(`${bin}/multus`), content);
  }
});

Deno.test("Executable.ensure() notices what takes the place of what it copies", async () => {
  const { folder, executable, bin } = prepare();
  using _folder = folder;
  const { copyFile } = Deno;
  try {
    Deno.copyFile = async (from, to): Promise<void> => {
      await copyFile(from, to);
      folder.add("next", "two");
      Deno.renameSync(`${folder.path}/next`, from);
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
  const { folder, executable, bin } = prepare();
  using _folder = folder;
  Deno.mkdirSync(`${bin}/cni-multus`);
  await assertRejects(() => executable.ensure(), CniError, "Cannot copy");
  Deno.removeSync(`${folder.path}/source`);
  await assertRejects(() => executable.ensure(), CniError, "Cannot compare");
  const names = [...Deno.readDirSync(bin)].map(({ name }) => name).sort();
  assertEquals(names, ["cni-multus", "other"]);
});
