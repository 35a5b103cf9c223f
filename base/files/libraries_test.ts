// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assertEquals, assertRejects } from "@std/assert";
import { dirname } from "@std/path/posix";
import { CniError } from "../error.ts";
import {
  compareLibraries,
  copyLibraries,
  LIBRARY_DIRECTORY,
  removeLibraries,
} from "./libraries.ts";

/** Two directories: of an executable with libraries, and of its copies. */
class Scene implements Disposable {
  readonly #root = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly executable = `${this.#root}/from/cni`;
  readonly target = `${this.#root}/to`;

  /** Creates them. */
  constructor() {
    Deno.mkdirSync(`${this.#root}/from/${LIBRARY_DIRECTORY}`, {
      recursive: true,
    });
    Deno.mkdirSync(this.target);
    Deno.writeTextFileSync(this.executable, "");
    this.write({ "libc.so.6": "one", "ld.so": "two" });
  }

  /** Writes libraries. */
  write(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      const path = `${this.#root}/from/${LIBRARY_DIRECTORY}/${name}`;
      Deno.writeTextFileSync(path, text, { mode: 0o755 });
    }
  }

  /** Unpacks an older archive, with a library more, beside the copy. */
  unpack(): void {
    const path = `${this.target}/${LIBRARY_DIRECTORY}`;
    Deno.mkdirSync(path);
    for (const name of ["libc.so.6", "old"]) {
      Deno.writeTextFileSync(`${path}/${name}`, "");
    }
  }

  /** Takes the libraries from the executable. */
  takeAway(): void {
    Deno.removeSync(`${this.#root}/from/${LIBRARY_DIRECTORY}`, {
      recursive: true,
    });
  }

  /** Reads what was copied. */
  read(): Record<string, string> {
    const path = `${this.target}/${LIBRARY_DIRECTORY}`;
    return Object.fromEntries(
      [...Deno.readDirSync(path)].map(({ name }) =>
        [name, Deno.readTextFileSync(`${path}/${name}`)] as const
      ).toSorted(),
    );
  }

  /** Returns what copying says that it changes, before and while it does. */
  async copy(): Promise<(string | undefined)[]> {
    const { executable, target } = this;
    return [
      await compareLibraries(executable, target),
      await copyLibraries(executable, target),
    ];
  }

  /** Lists what is in the directory of the copies. */
  count(): number {
    return [...Deno.readDirSync(this.target)].length;
  }

  /** Removes them. */
  [Symbol.dispose](): void {
    Deno.removeSync(this.#root, { recursive: true });
  }
}

Deno.test("copyLibraries() copies what is beside the executable, once", async () => {
  using scene = new Scene();
  assertEquals(await scene.copy(), ["installed", "installed"]);
  assertEquals(scene.read(), { "ld.so": "two", "libc.so.6": "one" });
  // What an ended copy has left.
  Deno.mkdirSync(`${scene.target}/${LIBRARY_DIRECTORY}-a1b2c3`);
  assertEquals(await scene.copy(), ["unchanged", "unchanged"]);
  assertEquals(scene.count(), 2);
  scene.write({ "libc.so.6": "new" });
  assertEquals(await scene.copy(), ["updated", "updated"]);
  assertEquals(scene.read(), { "ld.so": "two", "libc.so.6": "new" });
  scene.write({ "libm.so.6": "more" });
  assertEquals(await scene.copy(), ["updated", "updated"]);
  assertEquals(Object.keys(scene.read()).length, 3);
  assertEquals(scene.count(), 2, "the link and one copy");
  const path = `${scene.target}/${LIBRARY_DIRECTORY}/ld.so`;
  assertEquals((Deno.statSync(path).mode ?? 0) & 0o777, 0o755);
});

Deno.test("copyLibraries() leaves nothing of a copy that fails", async () => {
  using scene = new Scene();
  // After libc.so.6.
  const path = `${dirname(scene.executable)}/${LIBRARY_DIRECTORY}/libm.so.6`;
  Deno.mkdirSync(path);
  await assertRejects(() => copyLibraries(scene.executable, scene.target));
  assertEquals(scene.count(), 0);
  Deno.removeSync(path);
  assertEquals(await scene.copy(), ["installed", "installed"]);
});

Deno.test("copyLibraries() replaces a directory that an archive has left", async () => {
  using scene = new Scene();
  scene.unpack();
  assertEquals(await scene.copy(), ["updated", "updated"]);
  assertEquals(Object.keys(scene.read()), ["ld.so", "libc.so.6"]);
  assertEquals(scene.count(), 2);
});

Deno.test("copyLibraries() leaves libraries that another executable needs", async () => {
  using scene = new Scene();
  await scene.copy();
  scene.takeAway();
  assertEquals(await scene.copy(), [undefined, undefined]);
  assertEquals(Object.keys(scene.read()), ["ld.so", "libc.so.6"]);
});

Deno.test("removeLibraries() leaves nothing", async () => {
  using scene = new Scene();
  assertEquals(removeLibraries(scene.target), false);
  await scene.copy();
  assertEquals(removeLibraries(scene.target), true);
  scene.unpack();
  assertEquals(removeLibraries(scene.target), true);
  assertEquals(scene.count(), 0);
});

for (
  const [what, make] of Object.entries({
    "a file": (path: string) => Deno.writeTextFileSync(path, "theirs"),
    "a directory": (path: string) => Deno.mkdirSync(path),
    "a link": (path: string) => Deno.symlinkSync("../lib", path),
  })
) {
  Deno.test(`copyLibraries() leaves ${what} of another program alone`, async () => {
    using scene = new Scene();
    const path = `${scene.target}/${LIBRARY_DIRECTORY}`;
    make(path);
    for (const run of [compareLibraries, copyLibraries]) {
      await assertRejects(
        () => run(scene.executable, scene.target),
        CniError,
        `Cannot replace "${path}": it belongs to another program`,
      );
    }
    assertEquals(removeLibraries(scene.target), false);
    Deno.lstatSync(path);
  });
}
