import { assertEquals, assertRejects } from "@std/assert";
import { ConfDirectory } from "../../tests/_harness/conf_directory.ts";
import { haveSameContent } from "./same_content.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const MEBIBYTE = 1 << 20;

Deno.test("haveSameContent() compares every byte", async (t) => {
  const long = "x".repeat(2 * MEBIBYTE);
  const rows: [string, string, string, boolean][] = [
    ["nothing", "", "", true],
    ["a few bytes", "abcde", "abcde", true],
    ["the last of a few bytes", "abcde", "abcdf", false],
    ["the first byte", "abcde", "xbcde", false],
    ["another length", "abc", "abcd", false],
    ["whole chunks", long, long, true],
    ["the last byte of a chunk", `${long}ab`, `${long.slice(1)}yab`, false],
    ["a chunk after equal ones", `${long}abcd`, `${long}abcx`, false],
    ["the rest after equal chunks", `${long}abcde`, `${long}abcdx`, false],
  ];
  await eachRow(t, rows, async ([, left, right, expected]) => {
    using directory = new ConfDirectory({ left, right });
    const { path } = directory;
    const isSame = await haveSameContent(`${path}/left`, `${path}/right`);
    assertEquals(isSame, expected);
  });
});

Deno.test("haveSameContent() needs the first file, not the second", async () => {
  using directory = new ConfDirectory({ file: "x", "directory/file": "x" });
  const { path } = directory;
  assertEquals(await haveSameContent(`${path}/file`, `${path}/none`), false);
  assertEquals(
    await haveSameContent(`${path}/file`, `${path}/directory`),
    false,
  );
  await assertRejects(
    () => haveSameContent(`${path}/none`, `${path}/file`),
    Deno.errors.NotFound,
  );
});
