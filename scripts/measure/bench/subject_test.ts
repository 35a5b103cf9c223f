import { assertEquals, assertThrows } from "@std/assert";
import { findSubjects } from "./subject.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

/** Folders with a host-local each, removed in the end. */
class Folders implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "cni-test-" });

  add(path: string, mode = 0o755): string {
    const folder = `${this.root}/${path}`;
    Deno.mkdirSync(folder, { recursive: true });
    Deno.writeTextFileSync(`${folder}/host-local`, "", { mode });
    return folder;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

Deno.test("findSubjects() names ours, the Go plugins and peers, in this order", () => {
  using folders = new Folders();
  const [ours, go, fast] = ["ours", "debian", "fast"].map((name) =>
    folders.add(name)
  ) as [string, string, string];
  const { subjects, notes } = findSubjects(ours, [fast], go);
  assertEquals(subjects, [
    { name: "ours", bin: ours },
    { name: "go", bin: go },
    { name: "fast", bin: fast },
  ]);
  assertEquals(notes, []);
  const [, withMultus] = findSubjects(ours, [], go, "/m").subjects;
  assertEquals(withMultus, { name: "go", bin: go, multus: "/m" });
  const thick = folders.add("thick");
  Deno.writeTextFileSync(`${thick}/multus-daemon`, "", { mode: 0o755 });
  const daemons = findSubjects(ours, [], go, thick).subjects
    .map(({ thickDaemon }) => thickDaemon);
  assertEquals(daemons, [`${ours}/cni`, `${thick}/multus-daemon`]);
});

testRows("findSubjects() names a peer by as much of its path as it takes", [
  ["v2/fast", "fast"],
  ["v2/bin", "v2/bin"],
  ["opt/cni/bin", "cni/bin"],
  ["x/ours", "x/ours"],
  ["x/go", "x/go"],
  ["again/first", "again/first"],
], ([path, name]: [string, string]) => {
  using folders = new Folders();
  const [ours, go, first] = ["a", "b", "first"].map((name) =>
    folders.add(name)
  ) as [string, string, string];
  const { subjects } = findSubjects(ours, [first, folders.add(path)], go);
  assertEquals(subjects.at(-1)?.name, name);
});

Deno.test("findSubjects() goes on without the Go plugins, and says so", () => {
  using folders = new Folders();
  const ours = folders.add("ours");
  const { subjects, notes } = findSubjects(ours, [], "/no/such/folder");
  assertEquals(subjects.map(({ name }) => name), ["ours"]);
  assertEquals(notes.length, 1);
});

Deno.test("findSubjects() refuses a folder without plugins", async (t) => {
  using folders = new Folders();
  const ours = folders.add("ours");
  const rows = ["/no/such/folder", folders.add("not-executable", 0o644)];
  await eachRow(t, rows, (folder) => {
    const text = `Cannot measure "${folder}"`;
    assertThrows(() => findSubjects(ours, [folder]), Error, text);
    assertThrows(() => findSubjects(folder, []), Error, text);
  });
});
