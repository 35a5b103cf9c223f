import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { isFolder, requireFolder } from "./node_folder.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

Deno.test("isFolder() and requireFolder() know folders", async (t) => {
  using folder = new ConfFolder({ file: "" });
  folder.addLink("link", ".");
  const rows: [string, boolean][] = [
    [folder.path, true],
    [`${folder.path}/link`, true],
    [`${folder.path}/file`, false],
    [`${folder.path}/file/x`, false],
    [`${folder.path}/none`, false],
  ];
  await eachRow(t, rows, ([path, expected]) => {
    assertEquals(isFolder(path), expected);
    if (expected) return requireFolder(path);
    assertThrows(
      () => requireFolder(path),
      CniError,
      `Cannot install into "${path}": there is no such folder`,
    );
  }, ([path]) => path.slice(folder.path.length));
});
