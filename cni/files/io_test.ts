import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../error.ts";
import {
  ifPossible,
  isMissing,
  removeIfThere,
  removeQuietly,
  unlessMissing,
  withIoFailure,
} from "./io.ts";

Deno.test("withIoFailure() tells what was done, with code 5", () => {
  assertEquals(withIoFailure("read", () => 7), 7);
  const error = assertThrows(
    () => withIoFailure('read "/x"', () => Deno.readTextFileSync("/no/such")),
    CniError,
  );
  assertEquals(error.code, ErrorCode.IoFailure);
  assertEquals(error.message, 'Cannot read "/x"');
});

Deno.test("unlessMissing() answers undefined where nothing is there", async (t) => {
  const rows: [name: string, path: string, want: string | undefined][] = [
    ["a file", "/proc/sys/kernel/ostype", "Linux\n"],
    ["no file", "/no/such/file", undefined],
    ["an impossible name", `/${"n".repeat(300)}`, undefined],
  ];
  for (const [name, path, want] of rows) {
    await t.step(name, () => {
      assertEquals(unlessMissing(() => Deno.readTextFileSync(path)), want);
    });
  }
});

Deno.test("unlessMissing() throws what is wrong otherwise", async (t) => {
  const rows: [name: string, path: string][] = [
    ["a folder for a file", "/"],
    ["a file for a folder", "/proc/version/file"],
  ];
  for (const [name, path] of rows) {
    await t.step(name, () => {
      const error = assertThrows(
        () => unlessMissing(() => Deno.readTextFileSync(path)),
      );
      assertEquals(isMissing(error), false);
    });
  }
});

Deno.test("ifPossible() answers undefined whatever is wrong", async (t) => {
  const rows: [name: string, path: string, want: string | undefined][] = [
    ["a file", "/proc/sys/kernel/ostype", "Linux\n"],
    ["no file", "/no/such/file", undefined],
    ["a folder for a file", "/", undefined],
  ];
  for (const [name, path, want] of rows) {
    await t.step(name, () => {
      assertEquals(ifPossible(() => Deno.readTextFileSync(path)), want);
    });
  }
});

Deno.test("removeIfThere() fails only for what is there and cannot go", () => {
  const folder = Deno.makeTempDirSync();
  const file = `${folder}/file`;
  Deno.writeTextFileSync(file, "");
  const error = assertThrows(() => removeIfThere(folder), CniError);
  assertEquals(error.code, ErrorCode.IoFailure);
  assertEquals(error.message, `Cannot remove "${folder}"`);
  removeIfThere(file);
  removeIfThere(file);
  removeIfThere(folder);
  assertThrows(() => Deno.statSync(folder), Deno.errors.NotFound);
});

Deno.test("removeQuietly() removes what it can", () => {
  const folder = Deno.makeTempDirSync();
  const file = `${folder}/file`;
  Deno.writeTextFileSync(file, "");
  removeQuietly(folder); // There is something in it.
  assertEquals(Deno.statSync(file).isFile, true);
  removeQuietly(file);
  removeQuietly(file);
  removeQuietly(folder);
  assertThrows(() => Deno.statSync(folder), Deno.errors.NotFound);
});
