import { assertEquals, assertNotEquals } from "@std/assert";
import { findFileId, isSameFile } from "./same_file.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("isSameFile() compares files, not paths", async (t) => {
  const folder = await Deno.makeTempDir();
  try {
    const [file, copy] = [`${folder}/file`, `${folder}/copy`];
    await Deno.writeTextFile(file, "a");
    await Deno.writeTextFile(copy, "a");
    await Deno.symlink(file, `${folder}/symlink`);
    await Deno.link(file, `${folder}/link`);
    await Deno.symlink(`${folder}/absent`, `${folder}/dangling`);
    const rows: [name: string, path: string, expected: boolean][] = [
      ["itself", file, true],
      ["another spelling", `${folder}/./file`, true],
      ["a symbolic link", `${folder}/symlink`, true],
      ["a hard link", `${folder}/link`, true],
      ["a copy", copy, false],
      ["its folder", folder, false],
      ["nothing", `${folder}/absent`, false],
      ["a dangling link", `${folder}/dangling`, false],
      ["below a file", `${file}/a`, false],
      ["no path", "", false],
      ["a path with a NUL", `${file}\0`, false],
    ];
    await eachRow(t, rows, ([, path, expected]) => {
      assertEquals(isSameFile(path, file), expected);
      assertEquals(isSameFile(file, path), expected);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
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
