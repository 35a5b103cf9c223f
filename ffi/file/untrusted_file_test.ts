import { assertEquals, assertThrows } from "@std/assert";
import { WriteLease } from "../../tests/_harness/write_lease.ts";
import { readUntrusted } from "./untrusted_file.ts";

Deno.test("readUntrusted() opens nothing but regular files", async (t) => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/file`;
  await Deno.writeTextFile(path, "x".repeat(100_000));
  await t.step("a file", () => {
    assertEquals(readUntrusted(path), "x".repeat(65_536));
  });
  await t.step("a file of the kernel", async () => {
    assertEquals(readUntrusted("/proc/self/comm"), "");
    const { dev } = await Deno.stat("/proc");
    assertEquals(
      readUntrusted("/proc/self/comm", dev),
      await Deno.readTextFile("/proc/self/comm"),
    );
  });
  await t.step("a pipe, a device, a directory", async () => {
    await new Deno.Command("mkfifo", { args: [`${directory}/pipe`] }).output();
    await Deno.symlink("/dev/zero", `${directory}/link`);
    for (const other of [`${directory}/pipe`, `${directory}/link`, directory]) {
      const error = assertThrows(() => readUntrusted(other), Error);
      assertEquals(error.message, `"${other}" is not a regular file`);
    }
  });
  await t.step("a file that another program has leased", () => {
    using _lease = new WriteLease(path);
    assertThrows(() => readUntrusted(path), Error, "open: EAGAIN");
  });
  await Deno.remove(directory, { recursive: true });
});
