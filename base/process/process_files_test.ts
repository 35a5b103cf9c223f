import { assertEquals } from "@std/assert";
import { copyText, readLines, readStart } from "./process_files.ts";

const LINES = Array.from({ length: 20_000 }, (_, number) => `line ${number}`);
const TEXT = `${LINES.join("\n")}\n`;

async function withFile(work: (path: string) => unknown): Promise<void> {
  const path = await Deno.makeTempFile();
  await Deno.writeTextFile(path, TEXT);
  await work(path);
  await Deno.remove(path);
}

Deno.test("readStart() reads as much as it may", async () => {
  await withFile((path) => {
    assertEquals(readStart(path), TEXT.slice(0, 65_536));
    assertEquals(readStart(path, 10), TEXT.slice(0, 10));
    assertEquals(readStart(path, 1024 * 1024), TEXT);
    // The longer file is still in the buffer.
    assertEquals(readStart("/proc/self/comm").length < 17, true);
  });
  assertEquals(readStart("/proc/0/comm"), "");
});

Deno.test("readLines() reads as much as it may", async () => {
  const list = async (
    path: string,
    most: number,
  ): Promise<[number, string[]]> => {
    const lines: string[] = [];
    return [await readLines(path, most, (line) => lines.push(line)), lines];
  };
  await withFile(async (path) => {
    assertEquals(await list(path, 1024 * 1024), [TEXT.length, LINES]);
    assertEquals(await list(path, 9), [9, ["line 0"]]);
    assertEquals(await list(path, 0), [0, []]);
    const [length, lines] = await list(path, 100_000);
    const whole = TEXT.slice(0, 100_000).split("\n").slice(0, -1);
    assertEquals([length, lines], [100_000, whole]);
  });
  assertEquals(await list("/proc/0/mountinfo", 100), [0, []]);
});

Deno.test("copyText() does not keep the whole text in memory", () => {
  const bytes = new Uint8Array(1024 * 1024).fill("x".charCodeAt(0));
  const read = (number: number): string =>
    new TextDecoder().decode(bytes) + String(number);
  const before = Deno.memoryUsage().heapUsed;
  const parts = Array.from(
    { length: 500 },
    (_, number) => copyText(read(number).slice(0, 100)),
  );
  const used = Deno.memoryUsage().heapUsed - before;
  assertEquals([parts.length, used < 100 * 1024 * 1024], [500, true]);
});
