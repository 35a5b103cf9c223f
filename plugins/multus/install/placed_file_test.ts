import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { createLog } from "../../../base/log/log.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import { NotYetError } from "./steps.ts";
import {
  PlacedFile,
  readIfThere,
  requireDirectory,
  RestoreLimit,
} from "./placed_file.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { isDirectory } from "../../../base/files/io.ts";

function place(path: string): { file: PlacedFile; messages: () => string[] } {
  const lines: string[] = [];
  const file = new PlacedFile(path, createLog({}, (line) => lines.push(line)));
  const messages = (): string[] =>
    lines.splice(0).map((line) => /msg="([^"]*)"/.exec(line)?.[1] ?? line);
  return { file, messages };
}

Deno.test("PlacedFile.ensure() writes only a different file", () => {
  using directory = new ConfDirectory();
  const path = `${directory.path}/sub/file`;
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

Deno.test("PlacedFile.ensure() restores a removed file, with growing delays", () => {
  using directory = new ConfDirectory();
  const path = `${directory.path}/file`;
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

Deno.test("PlacedFile.ensure() replaces a file from before its start", () => {
  using directory = new ConfDirectory({ file: "old" });
  const { file, messages } = place(`${directory.path}/file`);
  file.ensure("one");
  assertEquals(messages(), ["wrote a file"]);
});

Deno.test("PlacedFile.ensure() names a file that cannot be written", () => {
  using directory = new ConfDirectory({ file: "" });
  const { file } = place(`${directory.path}/file/x`);
  assertThrows(() => file.ensure("one"), CniError, `${directory.path}/file/x"`);
});

Deno.test("readIfThere() distinguishes a missing file from an unreadable one", () => {
  using directory = new ConfDirectory({ file: "text" });
  assertEquals(readIfThere(`${directory.path}/file`), "text");
  assertEquals(readIfThere(`${directory.path}/none`), undefined);
  assertThrows(() => readIfThere(directory.path), CniError, "Cannot read");
});

Deno.test("isDirectory() and requireDirectory() recognize directories", async (t) => {
  using directory = new ConfDirectory({ file: "" });
  directory.addLink("link", ".");
  const rows: [string, boolean][] = [
    [directory.path, true],
    [`${directory.path}/link`, true],
    [`${directory.path}/file`, false],
    [`${directory.path}/file/x`, false],
    [`${directory.path}/none`, false],
  ];
  await eachRow(t, rows, ([path, expected]) => {
    assertEquals(isDirectory(path), expected);
    if (expected) return requireDirectory(path);
    assertThrows(
      () => requireDirectory(path),
      CniError,
      `Cannot install into "${path}": the directory does not exist`,
    );
  }, ([path]) => path.slice(directory.path.length));
});

function mayAct(limit: RestoreLimit): boolean {
  try {
    limit.takeTurn();
    return true;
  } catch {
    return false;
  }
}

Deno.test("RestoreLimit.takeTurn() allows the first restoration immediately, later ones after growing pauses", () => {
  let nowMs = 0;
  const limit = new RestoreLimit("/x", () => nowMs);
  const turns: number[] = [];
  for (; nowMs <= 40_000; nowMs += 100) {
    if (mayAct(limit)) turns.push(nowMs);
  }
  assertEquals(turns, [0, 1000, 3000, 7000, 15_000, 25_000, 35_000]);
});

Deno.test("RestoreLimit.takeTurn() resets its pauses after a quiet minute", () => {
  let nowMs = 0;
  const limit = new RestoreLimit("/x", () => nowMs);
  const answers = [0, 1000, 3000, 63_000, 63_900, 64_000].map((ms) => {
    nowMs = ms;
    return mayAct(limit);
  });
  assertEquals(answers, [true, true, true, true, false, true]);
});

Deno.test("RestoreLimit.takeTurn() names the file", () => {
  const limit = new RestoreLimit("/x", () => 0);
  limit.takeTurn();
  assertThrows(
    () => limit.takeTurn(),
    NotYetError,
    'Cannot restore "/x" yet: another program keeps replacing it',
  );
});
