import { assertEquals, assertThrows } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { ROOT } from "../project.ts";
import { parseObject, withFacts } from "../mkdenort/object.ts";
import { formatCallFormat } from "./call_format.ts";
import {
  compileObject,
  digestSources,
  findMissingTools,
  listObjects,
} from "./objects.ts";

Deno.test("call_format.h has what the tables have", async () => {
  const text = await Deno.readTextFile(`${ROOT}launcher/call_format.h`);
  assertEquals(text, formatCallFormat(), "run `deno task launcher`");
});

testRows(
  "machine code belongs to its source",
  listObjects(),
  async ({ program, path }) => {
    const [, line = ""] = (await Deno.readTextFile(ROOT + path)).split("\n");
    const digest = await digestSources(program);
    assertEquals(
      line,
      `Sources: SHA-256 ${digest}`,
      "run `deno task launcher`",
    );
  },
  ({ path }) => path,
);

const missing = findMissingTools();

for (const object of listObjects()) {
  Deno.test({
    name: `machine code is compiled to the same bytes: ${object.path}${
      missing.length > 0 ? ` (skipped: needs ${missing.join(", ")})` : ""
    }`,
    ignore: missing.length > 0,
    async fn(): Promise<void> {
      assertEquals(
        await compileObject(object),
        await Deno.readTextFile(ROOT + object.path),
      );
    },
  });
}

Deno.test("parseObject() reads bytes, not instructions or texts", () => {
  const text = [
    "Machine code",
    "Sources: SHA-256 aa bb",
    "",
    "_start:",
    "0000  48 89                 add 0x10",
    "",
    "texts:",
    "0002  61 62 63              ab cd",
    "0005  00",
  ].join("\n");
  const bytes = [0x48, 0x89, 0x61, 0x62, 0x63, 0];
  assertEquals([...parseObject(text)], bytes);
  assertThrows(() => parseObject("_start:\n"), Error, "no bytes");
});

Deno.test("withFacts() puts numbers and texts behind the code", () => {
  const made = withFacts(Uint8Array.of(1, 2), {
    numbers: [3, -1],
    texts: [["ab", 4], ["", 1]],
  });
  assertEquals(
    [...made],
    [1, 2, 3, 0, 0, 0, 0, 0, 0, 0, ...Array(8).fill(255), 97, 98, 0, 0, 0],
  );
  assertThrows(
    () => withFacts(made, { numbers: [], texts: [["abcd", 4]] }),
    Error,
    'Cannot keep "abcd": expected fewer than 4 bytes',
  );
});
