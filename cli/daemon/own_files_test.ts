import { assertEquals } from "@std/assert";
import { findFileId } from "../../base/files/same_file.ts";
import { OwnFiles } from "./own_files.ts";

Deno.test("OwnFiles detects a replaced plugin", async (t) => {
  const directory = await Deno.makeTempDir();
  const [own, ptp, none] = ["own", "ptp", "none"]
    .map((name) => `${directory}/${name}`) as [string, string, string];
  // Long ago, so that a change cannot go unnoticed.
  const write = async (path: string, text: string): Promise<void> => {
    await Deno.writeTextFile(path, text);
    await Deno.utime(path, 1, 1);
  };
  try {
    await write(own, "this executable");
    await write(ptp, "this executable");
    await Deno.symlink(ptp, `${directory}/bridge`);
    const files = new OwnFiles(["bridge", "none", "ptp"], own);
    const list = (): Promise<string[]> => files.list([directory, none]);
    const id = findFileId(ptp);
    assertEquals(await list(), [id]);
    await t.step("in place, by a file of the same size", async () => {
      await write(ptp, "that executable");
      assertEquals(findFileId(ptp), id);
      assertEquals(await list(), []);
    });
    await t.step("and detects the original file again", async () => {
      await write(ptp, "this executable");
      assertEquals(await list(), [id]);
    });
    await t.step("and removed", async () => {
      await Deno.remove(ptp);
      assertEquals(await list(), []);
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
