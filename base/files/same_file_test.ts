import { assertEquals, assertNotEquals } from "@std/assert";
import { findFileId, isSameFile } from "./same_file.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("isSameFile() compares files, not paths", async (t) => {
  const directory = await Deno.makeTempDir();
  try {
    const [file, copy] = [`${directory}/file`, `${directory}/copy`];
    await Deno.writeTextFile(file, "a");
    await Deno.writeTextFile(copy, "a");
    await Deno.symlink(file, `${directory}/symlink`);
    await Deno.link(file, `${directory}/link`);
    await Deno.symlink(`${directory}/absent`, `${directory}/dangling`);
    const rows: [name: string, path: string, expected: boolean][] = [
      ["itself", file, true],
      ["another spelling", `${directory}/./file`, true],
      ["a symbolic link", `${directory}/symlink`, true],
      ["a hard link", `${directory}/link`, true],
      ["a copy", copy, false],
      ["its directory", directory, false],
      ["nothing", `${directory}/absent`, false],
      ["a dangling link", `${directory}/dangling`, false],
      ["below a file", `${file}/a`, false],
      ["no path", "", false],
      ["a path with a NUL", `${file}\0`, false],
    ];
    await eachRow(t, rows, ([, path, expected]) => {
      assertEquals(isSameFile(path, file), expected);
      assertEquals(isSameFile(file, path), expected);
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("isSameFile() tells files apart that have one inode number", () => {
  const [proc, sys] = [Deno.statSync("/proc"), Deno.statSync("/sys")];
  assertEquals(proc.ino, sys.ino);
  assertEquals(isSameFile("/proc", "/sys"), false);
});

Deno.test("isSameFile() does not take two absent files for one", () => {
  assertEquals(isSameFile("/nonexistent", "/nonexistent"), false);
});

Deno.test("findFileId() distinguishes files, and returns undefined for a missing one", () => {
  assertEquals(findFileId("/proc/self/exe"), findFileId(Deno.execPath()));
  assertNotEquals(findFileId("/proc"), findFileId("/sys"));
  assertEquals(findFileId("/nonexistent"), undefined);
});
