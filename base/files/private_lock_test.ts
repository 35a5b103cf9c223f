import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { eachRow } from "../../tests/_harness/table.ts";
import { createLog } from "../log/log.ts";
import { lockPrivately } from "./private_lock.ts";

/** Runs `test` with the path of a directory that does not exist yet. */
async function withDirectory(
  test: (directory: string) => Promise<void>,
): Promise<void> {
  const parent = await Deno.makeTempDir();
  try {
    await test(`${parent}/run/locks`);
  } finally {
    await Deno.remove(parent, { recursive: true });
  }
}

const modeOf = (path: string): number =>
  (Deno.statSync(path).mode ?? 0) & 0o777;
const list = (directory: string): string[] =>
  [...Deno.readDirSync(directory)].map(({ name }) => name);

Deno.test("lockPrivately() locks a file that only its owner can open", () =>
  withDirectory(async (directory) => {
    {
      using _lock = await lockPrivately("one", {}, directory);
      assertEquals(
        [modeOf(directory), modeOf(`${directory}/one`)],
        [0o700, 0o600],
      );
      await assertRejects(
        () => lockPrivately("one", { what: "the door", limitMs: 0 }, directory),
        Error,
        "Cannot lock the door",
      );
      using _other = await lockPrivately("other", { limitMs: 0 }, directory);
    }
    assertEquals(list(directory), []);
  }));

Deno.test("lockPrivately() lets one in at a time, although each removes the file", () =>
  withDirectory(async (directory) => {
    let inside = 0, turns = 0;
    await Promise.all(Array.from({ length: 20 }, async () => {
      using _lock = await lockPrivately("one", {}, directory);
      assertEquals(++inside, 1);
      await Deno.stat(directory);
      inside--;
      turns++;
    }));
    assertEquals([turns, list(directory)], [20, []]);
  }));

Deno.test("lockPrivately() goes on where the lock cannot be created", (t) =>
  withDirectory(async (unused) => {
    const parent = unused.replace("/run/locks", "");
    await Deno.writeTextFile(`${parent}/file`, "");
    await Deno.symlink("loop", `${parent}/loop`);
    const rows: [why: string, directory: string, level: string][] = [
      ["it may not be", "/sys/kernel/locks", "debug"],
      ["a file is in the way", `${parent}/file/locks`, "warn"],
      ["a link leads to itself", `${parent}/loop/locks`, "warn"],
    ];
    await eachRow(t, rows, async ([, directory, level]) => {
      const lines: string[] = [];
      const env = { CNI_LOG_LEVEL: "debug" };
      const log = createLog({}, (line) => lines.push(line), env);
      using _lock = await lockPrivately("one", { log }, directory);
      assertEquals(lines.length, 1);
      assertStringIncludes(lines.join(), `level=${level}`);
    });
  }));
