import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { checkTarget, writeTarget } from "./written_file.ts";

Deno.test("checkTarget() refuses only file names of single-plugin configurations", () => {
  for (const path of ["a.conf", "/etc/cni/net.d/10.json"]) {
    assertEquals(assertThrows(() => checkTarget(path), CniError).code, 7);
  }
  for (const path of ["a.conflist", "a", "conf", "a.conf.bak"]) {
    checkTarget(path);
  }
});

function modeOf(path: string): number {
  return (Deno.statSync(path).mode ?? 0) & 0o777;
}

Deno.test("writeTarget() keeps a file's mode, and makes a new file readable by all", () => {
  using directory = new PluginDirectory();
  const old = directory.addFile("old", "something longer", 0o600);
  writeTarget(old, "new");
  assertEquals([Deno.readTextFileSync(old), modeOf(old)], ["new", 0o600]);
  const path = `${directory.path}/new`;
  writeTarget(path, "x");
  assertEquals([Deno.readTextFileSync(path), modeOf(path)], ["x", 0o644]);
});

Deno.test("writeTarget() fails without the directory", () => {
  using directory = new PluginDirectory();
  const file = directory.addFile("file", "");
  const rows: [path: string, problem: string][] = [
    [`${directory.path}/a/b/new`, `"${directory.path}/a/b" does not exist`],
    [`${file}/new`, `"${file}" is not a directory`],
  ];
  for (const [path, problem] of rows) {
    const error = assertThrows(() => writeTarget(path, "x"), CniError);
    assertEquals(error.code, 5);
    assertStringIncludes(String(error.cause), problem);
  }
  assertEquals([...Deno.readDirSync(directory.path)].length, 1);
});

Deno.test("writeTarget() follows links", () => {
  using directory = new PluginDirectory();
  const file = directory.addFile("file", "old", 0o640);
  const link = `${directory.path}/link`;
  Deno.symlinkSync("file", link);
  writeTarget(link, "new");
  assertEquals(Deno.readTextFileSync(file), "new");
  assertEquals(Deno.readLinkSync(link), "file");
});
