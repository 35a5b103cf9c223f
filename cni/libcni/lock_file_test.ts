import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path/posix";
import { LockFile, readIfLocked } from "./lock_file.ts";

/** Runs `test` with the path of a file that does not exist yet. */
async function withPath(test: (path: string) => unknown): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "cni-lock-file-" });
  try {
    await test(join(folder, "lock"));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const EXCLUSIVE = { exclusive: true }, SHARED = { exclusive: false };

function exists(path: string): boolean {
  const names = [...Deno.readDirSync(join(path, ".."))];
  return names.some(({ name }) => path.endsWith(`/${name}`));
}

Deno.test("LockFile.tryOpen() takes shared and exclusive locks", async (t) => {
  const rows: [held: typeof SHARED, wanted: typeof SHARED, open: boolean][] = [
    [SHARED, SHARED, true],
    [SHARED, EXCLUSIVE, false],
    [EXCLUSIVE, SHARED, false],
    [EXCLUSIVE, EXCLUSIVE, false],
  ];
  for (const [held, wanted, open] of rows) {
    await t.step(JSON.stringify([held, wanted]), () =>
      withPath((path) => {
        const holder = LockFile.tryOpen(path, held);
        const other = LockFile.tryOpen(path, wanted);
        assertEquals(other !== undefined, open);
        other?.[Symbol.dispose]();
        holder?.[Symbol.dispose]();
        using last = LockFile.tryOpen(path, wanted);
        assert(last);
      }));
  }
});

Deno.test("LockFile.remove() unlocks a removed file that others have open", () =>
  withPath((path) => {
    const first = LockFile.tryOpen(path, EXCLUSIVE);
    first?.remove();
    assertEquals(exists(path), false);
    using second = LockFile.tryOpen(path, EXCLUSIVE);
    assert(second);
    assertEquals(exists(path), true);
  }));

Deno.test("LockFile.remove() unlocks a file that cannot be removed", () =>
  withPath((path) => {
    const first = LockFile.tryOpen(path, EXCLUSIVE);
    Deno.removeSync(path);
    first?.remove();
    using second = LockFile.tryOpen(path, EXCLUSIVE);
    assert(second);
  }));

Deno.test("LockFile.write() replaces the content", () =>
  withPath((path) => {
    using lock = LockFile.tryOpen(path, EXCLUSIVE);
    lock?.write(new TextEncoder().encode("longer"));
    lock?.write(new TextEncoder().encode("short"));
    assertEquals(Deno.readTextFileSync(path), "short");
  }));

Deno.test("LockFile.tryOpen() throws if the folder does not exist", () =>
  withPath((path) => {
    assertThrows(
      () => LockFile.tryOpen(join(path, "none"), EXCLUSIVE),
      Deno.errors.NotFound,
    );
  }));

Deno.test("readIfLocked() reads an exclusively locked file", () =>
  withPath((path) => {
    assertEquals(readIfLocked(path), "");
    const lock = LockFile.tryOpen(path, EXCLUSIVE);
    lock?.write(new TextEncoder().encode("me"));
    assertEquals(readIfLocked(path), "me");
    lock?.[Symbol.dispose]();
    assertEquals(readIfLocked(path), "");
    using _shared = LockFile.tryOpen(path, SHARED);
    assertEquals(readIfLocked(path), "");
  }));

/** Counts in a file, between locking and removing another one, without a rest. */
const COUNT = `
  for (let left = 1500; left > 0;) {
    const lock = LockFile.tryOpen(path, { exclusive: true });
    if (lock === undefined) continue;
    const count = Number(Deno.readTextFileSync(path + ".count"));
    Deno.writeTextFileSync(path + ".count", String(count + 1));
    lock.remove();
    left--;
  }`;

Deno.test("LockFile.tryOpen() does not lock a file that was removed meanwhile", () =>
  withPath(async (path) => {
    await Deno.writeTextFile(`${path}.count`, "0");
    const module = new URL("lock_file.ts", import.meta.url);
    const script = `import { LockFile } from "${module}";
      const path = "${path}"; ${COUNT}`;
    const processes = [1, 2, 3].map(() =>
      new Deno.Command(Deno.execPath(), {
        args: ["eval", "--no-config", script],
      }).output()
    );
    for (const { success } of await Promise.all(processes)) assert(success);
    assertEquals(await Deno.readTextFile(`${path}.count`), String(3 * 1500));
  }));
