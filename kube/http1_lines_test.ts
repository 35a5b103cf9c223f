import { assertEquals, assertRejects } from "@std/assert";
import { bytesOf } from "../tests/_harness/answer_bytes.ts";
import { LineReader } from "./http1_lines.ts";

const SIZES = [1, 3, Infinity];

/** Opens a reader that gets the text in pieces. */
function open(text: string, size: number, maxBytes = 100): LineReader {
  const reader = new LineReader(bytesOf(text, size));
  reader.begin("it", maxBytes);
  return reader;
}

Deno.test("LineReader reads lines and bytes, however they come", async (t) => {
  const decode = (bytes?: Uint8Array): string =>
    new TextDecoder().decode(bytes);
  for (const size of SIZES) {
    await t.step(`${size} bytes at a time`, async () => {
      const reader = open("ab\r\n\r\ncdef\r\n\u00e9", size);
      assertEquals(await reader.readLine(), "ab");
      assertEquals(await reader.readLine(), "");
      let text = "";
      while (text.length < 3) {
        text += decode(await reader.readSome(3 - text.length));
      }
      assertEquals(text, "cde");
      assertEquals(await reader.readLine(), "f");
      const rest: number[] = [];
      for (let bytes; (bytes = await reader.readAny());) rest.push(...bytes);
      assertEquals([rest, reader.hasUnread], [[0xc3, 0xa9], false]);
      await assertRejects(() => reader.readSome(1), Error, "connection closed");
      await assertRejects(() => reader.readLine(), Error, "connection closed");
    });
  }
});

Deno.test("LineReader refuses lines that contain part of an end", async (t) => {
  for (const text of ["a\n", "a\rb\r\n", "a\r\r\n", "\n", "a\0\r\n"]) {
    for (const size of SIZES) {
      const name = `${JSON.stringify(text)}, ${size} bytes at a time`;
      await t.step(name, async () => {
        const reader = open(text, size);
        await assertRejects(() => reader.readLine(), Error, "of its own");
      });
    }
  }
});

Deno.test("LineReader lets the lines of a part be so long together", async (t) => {
  const read = async (reader: LineReader, lines: number): Promise<void> => {
    for (let line = 0; line < lines; line++) await reader.readLine();
  };
  for (const size of SIZES) {
    await t.step(`${size} bytes at a time`, async () => {
      const reader = open("ab\r\n".repeat(100), size, 12);
      await read(reader, 3);
      reader.begin("it", 12);
      await read(reader, 2);
      reader.allow(8, 10);
      await read(reader, 2);
      await assertRejects(() => read(reader, 1), Error, "it has no end");
    });
  }
});
