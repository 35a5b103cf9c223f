import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { createLog } from "../../../cni/log/log.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { NotYetError } from "./steps.ts";
import {
  isFolder,
  PlacedFile,
  readIfThere,
  requireFolder,
} from "./placed_file.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

function place(path: string): { file: PlacedFile; messages: () => string[] } {
  const lines: string[] = [];
  const file = new PlacedFile(path, createLog({}, (line) => lines.push(line)));
  const messages = (): string[] =>
    lines.splice(0).map((line) => /msg="([^"]*)"/.exec(line)?.[1] ?? line);
  return { file, messages };
}

Deno.test("PlacedFile.ensure() writes only what is not so", () => {
  using folder = new ConfFolder();
  const path = `${folder.path}/sub/file`;
  const { file, messages } = place(path);
  file.ensure("one");
  const { ino, mode } = Deno.statSync(path);
  assertEquals((mode ?? 0) & 0o777, 0o600);
  file.ensure("one");
  assertEquals(Deno.statSync(path).ino, ino);
  file.ensure("two");
  assertEquals(Deno.readTextFileSync(path), "two");
  assertEquals(messages(), ["wrote a file", "wrote a file"]);
});

Deno.test("PlacedFile.ensure() puts back what others take, but not at once each time", () => {
  using folder = new ConfFolder();
  const path = `${folder.path}/file`;
  const { file, messages } = place(path);
  file.ensure("one");
  Deno.removeSync(path);
  file.ensure("one");
  assertEquals(Deno.readTextFileSync(path), "one");
  Deno.writeTextFileSync(path, "other");
  assertThrows(() => file.ensure("one"), NotYetError);
  assertEquals(Deno.readTextFileSync(path), "other");
  assertEquals(messages(), [
    "wrote a file",
    "restored a file that another program removed",
  ]);
});

Deno.test("PlacedFile.ensure() replaces what was there before it was started", () => {
  using folder = new ConfFolder({ file: "old" });
  const { file, messages } = place(`${folder.path}/file`);
  file.ensure("one");
  assertEquals(messages(), ["wrote a file"]);
});

Deno.test("PlacedFile.ensure() says what cannot be written", () => {
  using folder = new ConfFolder({ file: "" });
  const { file } = place(`${folder.path}/file/x`);
  assertThrows(() => file.ensure("one"), CniError, `${folder.path}/file/x"`);
});

Deno.test("readIfThere() tells a missing file from one that cannot be read", () => {
  using folder = new ConfFolder({ file: "text" });
  assertEquals(readIfThere(`${folder.path}/file`), "text");
  assertEquals(readIfThere(`${folder.path}/none`), undefined);
  assertThrows(() => readIfThere(folder.path), CniError, "Cannot read");
});

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
      `Cannot install into "${path}": the folder does not exist`,
    );
  }, ([path]) => path.slice(folder.path.length));
});
