import { assertEquals, assertThrows } from "@std/assert";
import { unlessMissing } from "./io_failure.ts";

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
