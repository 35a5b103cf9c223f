import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { findSignature, signFolder } from "./folder_signature.ts";

/** A folder with one file in it, and the folder beside it that holds both. */
class Fixture implements Disposable {
  readonly parent = Deno.makeTempDirSync();
  readonly folder = `${this.parent}/folder`;

  constructor() {
    Deno.mkdirSync(this.folder);
    Deno.writeTextFileSync(`${this.folder}/file`, "");
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.parent, { recursive: true });
  }
}

Deno.test("signFolder() marks a folder until something changes", async (t) => {
  const rows: [name: string, change: (folder: string) => void][] = [
    ["a new file", (f) => Deno.writeTextFileSync(`${f}/new`, "")],
    ["a new link", (f) => Deno.linkSync(`${f}/file`, `${f}/new`)],
    ["a new folder", (f) => Deno.mkdirSync(`${f}/new`)],
    ["a file gone", (f) => Deno.removeSync(`${f}/file`)],
    ["a file renamed", (f) => Deno.renameSync(`${f}/file`, `${f}/other`)],
    ["a file moved away", (f) => Deno.renameSync(`${f}/file`, `${f}/../file`)],
    ["a time set by hand", (f) => Deno.utimeSync(f, 0, 1)],
  ];
  for (const [name, change] of rows) {
    await t.step(name, () => {
      using fixture = new Fixture();
      const { folder } = fixture;
      assertEquals(findSignature(folder), undefined);
      const signature = signFolder(folder);
      assertEquals(findSignature(folder), signature);
      change(folder);
      assertNotEquals(findSignature(folder), signature);
    });
  }
});

Deno.test("signFolder() marks each state by itself", () => {
  using fixture = new Fixture();
  assertNotEquals(signFolder(fixture.folder), signFolder(fixture.folder));
});

Deno.test("findSignature() sees through a backup with its times restored", () => {
  using fixture = new Fixture();
  const { folder, parent } = fixture;
  const signature = signFolder(folder);
  const { atime, mtime } = Deno.statSync(folder);
  assert(atime !== null && mtime !== null);

  // Another folder by the same path.
  Deno.renameSync(folder, `${parent}/old`);
  Deno.mkdirSync(folder);
  Deno.utimeSync(folder, atime, mtime);
  assertNotEquals(findSignature(folder), signature);

  // The same folder, its files restored. Deno knows the change time in seconds.
  Deno.removeSync(folder);
  Deno.renameSync(`${parent}/old`, folder);
  const signedAgain = signFolder(folder);
  const signedTimes = Deno.statSync(folder);
  Deno.writeTextFileSync(`${folder}/new`, "");
  do {
    Deno.utimeSync(folder, atime, signedTimes.mtime ?? mtime);
  } while (isSameSecond(folder, signedTimes));
  assertEquals(Deno.statSync(folder).mtime, signedTimes.mtime);
  assertNotEquals(findSignature(folder), signedAgain);
});

function isSameSecond(folder: string, { ctime }: Deno.FileInfo): boolean {
  return Deno.statSync(folder).ctime?.getTime() === ctime?.getTime();
}
