import { assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path/posix";
import { readProcessStat } from "./process_stat.ts";

Deno.test("readProcessStat() reads past parentheses in a program's name", async () => {
  const directory = await Deno.makeTempDir();
  try {
    // The kernel keeps 15 bytes of the name.
    const program = join(directory, "a) T 1 (b");
    await Deno.copyFile("/bin/sleep", program);
    await using child = new Deno.Command(program, { args: ["60"] }).spawn();
    const { state, parent, startTicks } = readProcessStat(child.pid);
    assertEquals([/^[RSD]$/.test(state), parent], [true, Deno.pid]);
    assertEquals(
      Number(startTicks) >= Number(readProcessStat(Deno.pid).startTicks),
      true,
    );
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("readProcessStat() throws if there is no such process", () => {
  assertThrows(() => readProcessStat(2 ** 30), Deno.errors.NotFound);
});
