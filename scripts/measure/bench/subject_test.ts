import { assertEquals, assertThrows } from "@std/assert";
import { findSubjects } from "./subject.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** Directories with a host-local each, removed in the end. */
class Directories implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "cni-test-" });

  add(path: string, mode = 0o755): string {
    const directory = `${this.root}/${path}`;
    Deno.mkdirSync(directory, { recursive: true });
    Deno.writeTextFileSync(`${directory}/host-local`, "", { mode });
    return directory;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

Deno.test("findSubjects() names ours, the Go plugins and peers, in this order", () => {
  using directories = new Directories();
  const [ours, go, fast] = ["ours", "debian", "fast"].map((name) =>
    directories.add(name)
  ) as [string, string, string];
  const { subjects, notes } = findSubjects(ours, {
    peers: [fast],
    goDirectory: go,
  });
  assertEquals(subjects, [
    { name: "ours", bin: ours },
    { name: "go", bin: go },
    { name: fast, bin: fast },
  ]);
  assertEquals(notes, []);
  const [, withMultus] = findSubjects(ours, {
    goDirectory: go,
    goMultus: "/m",
  }).subjects;
  assertEquals(withMultus, { name: "go", bin: go, multus: "/m" });
  const thick = directories.add("thick");
  Deno.writeTextFileSync(`${thick}/multus-daemon`, "", { mode: 0o755 });
  const daemons = findSubjects(ours, { goDirectory: go, goMultus: thick })
    .subjects.map(({ thickDaemon }) => thickDaemon);
  assertEquals(daemons, [`${ours}/cni`, `${thick}/multus-daemon`]);
});

Deno.test("findSubjects() goes on without the Go plugins, and says so", () => {
  using directories = new Directories();
  const ours = directories.add("ours");
  const { subjects, notes } = findSubjects(ours, {
    goDirectory: "/no/such/directory",
  });
  assertEquals(subjects.map(({ name }) => name), ["ours"]);
  assertEquals(notes.length, 1);
});

Deno.test("findSubjects() refuses a directory without plugins", async (t) => {
  using directories = new Directories();
  const ours = directories.add("ours");
  const rows = ["/no/such/directory", directories.add("not-executable", 0o644)];
  await eachRow(t, rows, (directory) => {
    const text = `Cannot measure "${directory}"`;
    assertThrows(() => findSubjects(ours, { peers: [directory] }), Error, text);
    assertThrows(() => findSubjects(directory), Error, text);
  });
});
