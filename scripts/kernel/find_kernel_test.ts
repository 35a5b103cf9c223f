import { assertEquals, assertThrows } from "@std/assert";
import { nameLoaderFromDirectory } from "./find_kernel.ts";

Deno.test("nameLoaderFromDirectory() takes the slash from the loader's path, and nothing else", () => {
  const encoder = new TextEncoder();
  const change = (text: string): string =>
    new TextDecoder().decode(nameLoaderFromDirectory(encoder.encode(text)));
  assertEquals(
    change("ELF/lib/lib64/ld-linux-x86-64.so.2\0\0/more"),
    "ELF/liblib64/ld-linux-x86-64.so.2\0\0\0/more",
  );
  assertThrows(
    () => change("/lib64/ld-linux.so.2\0"),
    Error,
    "Cannot find /lib64/ld-linux-x86-64.so.2 in it",
  );
});
