import { assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path/posix";
import { importFlags } from "../../scripts/import_flags.ts";
import { keepReplaced, replaceFile } from "./replace.ts";

/** A directory to write in. */
class Directory implements Disposable {
  readonly path: string = Deno.makeTempDirSync({ prefix: "cni-replace-" });
  readonly file: string = join(this.path, "file");

  /** Writes the file. */
  write(content: string): void {
    replaceFile(this.file, new TextEncoder().encode(content));
  }

  read(): string {
    return Deno.readTextFileSync(this.file);
  }

  /** Lists the directory, and what it has in directories. */
  list(directory: string = this.path): string[] {
    return [...Deno.readDirSync(directory)].flatMap(({ name, isDirectory }) =>
      isDirectory ? this.list(join(directory, name)) : [join(directory, name)]
    ).map((path) => path.replace(`${this.path}/`, "")).sort();
  }

  /** Creates an unfinished file, as a crash would leave it. */
  plantUnfinished(slot: string, content: string): Deno.FsFile {
    const directory = join(this.path, ".unfinished");
    Deno.mkdirSync(directory, { recursive: true });
    const path = join(directory, slot);
    Deno.writeTextFileSync(path, content);
    return Deno.openSync(path);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

Deno.test("replaceFile() writes the file and leaves nothing beside it", () => {
  using directory = new Directory();
  directory.write("first, and longer");
  directory.write("second");
  assertEquals(directory.read(), "second");
  assertEquals([...Deno.readDirSync(directory.path)].length, 1);
});

Deno.test("replaceFile() says no more of a directory than its name", () => {
  using directory = new Directory();
  const path = join(directory.path, "a");
  Deno.mkdirSync(path);
  const error = assertThrows(() => replaceFile(path, new Uint8Array([1])));
  assertEquals(`${error}`, "IsADirectory: Is a directory");
  assertEquals(directory.list(), []);
});

Deno.test("replaceFile() creates the directories for the owner only", () => {
  using directory = new Directory();
  const path = join(directory.path, "a/b/file");
  replaceFile(path, new Uint8Array([1, 2]));
  assertEquals(Deno.readFileSync(path), new Uint8Array([1, 2]));
  const modes = ["a", "a/b", "a/b/file"].map((name) =>
    (Deno.statSync(join(directory.path, name)).mode ?? 0) & 0o777
  );
  assertEquals(modes, [0o700, 0o700, 0o600]);
});

Deno.test("replaceFile() sets the mode", () => {
  using directory = new Directory();
  const path = join(directory.path, "file");
  replaceFile(path, new Uint8Array([1]), 0o644);
  assertEquals((Deno.statSync(path).mode ?? 0) & 0o777, 0o644);
});

Deno.test("replaceFile() reuses a file left by a crash", () => {
  using directory = new Directory();
  directory.plantUnfinished("0", "half of something that was longer").close();
  directory.write("whole");
  assertEquals(directory.read(), "whole");
  assertEquals(directory.list(), ["file"]);
});

Deno.test("replaceFile() leaves another process's unfinished file alone", () => {
  using directory = new Directory();
  using other = directory.plantUnfinished("0", "being written");
  other.lockSync(true);
  directory.write("whole");
  assertEquals(directory.list(), [".unfinished/0", "file"]);
  const path = join(directory.path, ".unfinished/0");
  assertEquals(Deno.readTextFileSync(path), "being written");
});

Deno.test("replaceFile() keeps the old file if it fails", async (t) => {
  await t.step("a file that cannot be written to", () => {
    using directory = new Directory();
    directory.write("old");
    Deno.mkdirSync(join(directory.path, ".unfinished"));
    Deno.symlinkSync("/dev/full", join(directory.path, ".unfinished/0"));
    assertThrows(() => directory.write("new"), Error);
    assertEquals([directory.read(), directory.list()], ["old", ["file"]]);
  });
  await t.step("a directory of that name", () => {
    using directory = new Directory();
    Deno.mkdirSync(join(directory.file, "in-the-way"), { recursive: true });
    assertThrows(() => directory.write("new"), Error);
    assertEquals([...Deno.readDirSync(directory.path)].length, 1);
  });
});

/** Starts a process that writes one file after the other, all to one name. */
async function spawnWriter(path: string, text: string): Promise<Deno.Command> {
  const module = new URL("replace.ts", import.meta.url);
  const script = `import { keepReplaced, replaceFile } from "${module}";
    const bytes = new TextEncoder().encode("${text}".repeat(10_000));
    for (let i = 0; i < 100; i++) replaceFile("${path}", bytes);`;
  return new Deno.Command(Deno.execPath(), {
    args: ["eval", ...(await importFlags()), script],
    cwd: new URL("../..", import.meta.url),
  });
}

Deno.test("replaceFile() keeps the file complete at all times with several writers", async () => {
  using directory = new Directory();
  directory.write("0".repeat(10_000));
  let done = 0;
  const writers = ["1", "2", "3"].map(async (text) => {
    const writer = await spawnWriter(directory.file, text);
    const { success, stderr } = await writer.output();
    assertEquals(success, true, new TextDecoder().decode(stderr));
    done++;
  });
  while (done < writers.length) {
    const seen = await Deno.readTextFile(directory.file);
    assertEquals(seen, (seen[0] ?? "none").repeat(10_000));
  }
  await Promise.all(writers);
  assertEquals(directory.list(), ["file"]);
});

Deno.test("keepReplaced() keeps a link as a link without hard links, too", () => {
  using directory = new Directory();
  // There is no hard link from one file system to another.
  const elsewhere = Deno.makeTempDirSync({
    dir: "/dev/shm",
    prefix: "cni-test-",
  });
  try {
    Deno.symlinkSync("away", `${directory.path}/dangling`);
    Deno.writeTextFileSync(`${directory.path}/file`, "text");
    for (const name of ["dangling", "file"]) {
      keepReplaced(`${directory.path}/${name}`, `${elsewhere}/kept/${name}`);
    }
    assertEquals(Deno.readLinkSync(`${elsewhere}/kept/dangling`), "away");
    assertEquals(Deno.readTextFileSync(`${elsewhere}/kept/file`), "text");
  } finally {
    Deno.removeSync(elsewhere, { recursive: true });
  }
});
