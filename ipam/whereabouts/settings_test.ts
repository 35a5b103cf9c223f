import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { readFlatFile } from "./settings.ts";

Deno.test("readFlatFile() names an unusable file", async (t) => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const path = `${directory}/whereabouts.conf`;
    await Deno.writeTextFile(path, "{");
    const loop = `${directory}/loop`;
    await Deno.symlink(loop, loop);
    const rows: [name: string, path: string, message: string][] = [
      ["a directory", directory, `Cannot read "${directory}"`],
      ["a link to itself", loop, `Cannot read "${loop}"`],
      ["no JSON", path, `Cannot parse "${path}"`],
      ["a device", "/dev/zero", 'Cannot read "/dev/zero": it is not a file'],
    ];
    await eachRow(t, rows, ([, path, message]) => {
      const error = assertThrows(() => readFlatFile(path), CniError, message);
      assertEquals(error.code, 7);
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("readFlatFile() prints no content of an unrelated file", async () => {
  const path = await Deno.makeTempFile({ prefix: "cni-test-" });
  try {
    await Deno.writeTextFile(path, "topsecret:x:0:0:root:/root:/bin/sh\n");
    const { message } = assertThrows(() => readFlatFile(path), CniError);
    assertEquals(
      message,
      `Cannot parse "${path}": unexpected character at line 1, column 1`,
    );
  } finally {
    await Deno.remove(path);
  }
});
