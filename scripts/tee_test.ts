import { assertEquals } from "@std/assert";
import { tee } from "./tee.ts";

Deno.test("tee() shows and returns what a command prints", async () => {
  const script = 'import { tee } from "./scripts/tee.ts";' +
    'const result = await tee("sh", { args: ["-c", "echo one; echo two"] });' +
    "console.error(JSON.stringify(result));";
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", script],
    cwd: new URL("..", import.meta.url),
  });
  const { stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  assertEquals(decoder.decode(stdout), "one\ntwo\n");
  assertEquals(JSON.parse(decoder.decode(stderr)), {
    output: "one\ntwo\n",
    success: true,
  });
});

Deno.test("tee() reports a failure", async () => {
  const failed = { output: "", success: false };
  assertEquals(await tee("sh", { args: ["-c", "exit 3"] }), failed);
});

Deno.test("tee() ends the command when its signal is aborted", async () => {
  const signal = AbortSignal.timeout(50);
  const { success } = await tee("sleep", { args: ["60"], signal });
  assertEquals(success, false);
});
