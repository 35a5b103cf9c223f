import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { hasCommand } from "../../testing/capabilities.ts";
import { encodeHeaders, isExtractable, makeTarGz } from "./tar.ts";

async function run(program: string, ...args: string[]): Promise<string> {
  const env = { TZ: "UTC", LC_ALL: "C.UTF-8" };
  const output = await new Deno.Command(program, { args, env }).output();
  assert(output.success, new TextDecoder().decode(output.stderr));
  return new TextDecoder().decode(output.stdout);
}

const PATHS = [
  "short",
  "a".repeat(100),
  `top/state/results/${"n".repeat(31)}-${"0123456789abcdef".repeat(4)}-eth0`,
  "b".repeat(255),
  Array(9).fill("c".repeat(200)).join("/"),
  "ü".repeat(127),
  "größe/网络",
];

for (const program of ["tar", "bsdtar"]) {
  Deno.test({
    name: `makeTarGz() writes what ${program} extracts, with any path and time`,
    ignore: !hasCommand(program),
    async fn(): Promise<void> {
      for (const mtime of [0, 1_800_000_000, 8 ** 11, -1]) {
        const directory = await Deno.makeTempDir();
        const texts = new Map(PATHS.map((path) => [path, `in ${path}\n`]));
        const file = `${directory}/x.tar.gz`;
        await Deno.writeFile(file, await makeTarGz(texts, mtime));
        await run(program, "-xzf", file, "-C", directory);
        for (const [path, text] of texts) {
          const extracted = `${directory}/${path}`;
          assertEquals(await Deno.readTextFile(extracted), text);
          const found = await run("stat", "-c", "%Y", extracted);
          assertEquals(Number(found), mtime);
        }
        await Deno.remove(directory, { recursive: true });
      }
    },
  });
}

Deno.test("encodeHeaders() writes sizes of 8 GiB and more to a pax record", () => {
  const textOf = (size: number): string =>
    encodeHeaders({ path: "x", size, mtime: 0 })
      .map((part) => new TextDecoder().decode(part)).join("");
  assertEquals(textOf(8 ** 11 - 1).length, 512);
  assertStringIncludes(textOf(8 ** 11), "19 size=8589934592\n");
});

Deno.test("isExtractable() refuses names that no file system allows", () => {
  for (const path of PATHS) assert(isExtractable(path), path);
  for (const path of [`x/${"a".repeat(256)}`, "ü".repeat(128), "a\0b"]) {
    assert(!isExtractable(path), path);
  }
});
