import { assertEquals } from "@std/assert";
import { shell } from "./shell.ts";

Deno.test("shell quotes values, so that bash reads each as one word", () => {
  const values = [
    "/run/netns/a",
    "",
    "a b",
    "$(id)",
    "it's",
    "a;b\n'\\n'",
    "*",
  ];
  for (const value of values) {
    const { stdout } = new Deno.Command("bash", {
      args: ["-c", shell`printf '%s\0' =${value}= x`],
    }).outputSync();
    assertEquals(new TextDecoder().decode(stdout), `=${value}=\0x\0`);
  }
  assertEquals(shell`rm /run/${"a b"} ${7}`, "rm /run/'a b' 7");
  assertEquals(shell`rm ${"/run/a.conf"}`, "rm /run/a.conf");
});
