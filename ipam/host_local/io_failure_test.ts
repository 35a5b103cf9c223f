import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../cni/error.ts";
import { unlessMissing, withIoFailure } from "./io_failure.ts";

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
    ["a file for a folder", "/proc/version/file", undefined],
    ["a name that can be none", `/${"n".repeat(300)}`, undefined],
  ];
  for (const [name, path, want] of rows) {
    await t.step(name, () => {
      assertEquals(unlessMissing(() => Deno.readTextFileSync(path)), want);
    });
  }
  await t.step("anything else is thrown", () => {
    assertThrows(() => unlessMissing(() => Deno.readTextFileSync("/")), Error);
  });
});
