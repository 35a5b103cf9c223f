import { assertEquals, assertRejects } from "@std/assert";
import { checkDigest, hexOfFile } from "./runtime.ts";

const target = "x86_64-unknown-linux-gnu";

Deno.test("checkDigest() takes the file whose digest is kept, and no other", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, "abc");
    const sha256 =
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assertEquals(await hexOfFile(path), sha256);
    const file = { kind: "deno", version: "1.2.3", target, path } as const;
    const key = `1.2.3 ${target}`;
    await checkDigest(file, { [key]: sha256 });
    const other = "0".repeat(64);
    await assertRejects(
      () => checkDigest(file, { [key]: other }),
      Error,
      `Cannot use deno 1.2.3 for ${target}: expected SHA-256 ${other}, found ${sha256}`,
    );
    await assertRejects(
      () => checkDigest(file, { [`1.2.4 ${target}`]: sha256 }),
      Error,
      `its SHA-256 is ${sha256}, and scripts/compile/digests.json has none`,
    );
  } finally {
    await Deno.remove(path);
  }
});
