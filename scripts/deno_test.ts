import { assertEquals } from "@std/assert";

const ROOT = new URL("..", import.meta.url);

function launch(...args: string[]): Deno.Command {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-config", "scripts/deno.ts", ...args],
    cwd: ROOT,
    stdout: "piped",
  });
}

Deno.test("scripts/deno.ts runs code that imports packages, and passes its exit code", async () => {
  const code = 'import "@std/assert"; console.log(Deno.args); Deno.exit(7)';
  const output = await launch("eval", code, "a b", "").output();
  assertEquals(new TextDecoder().decode(output.stdout), '[ "a b", "" ]\n');
  assertEquals(output.code, 7);
});

Deno.test("scripts/deno.ts leaves subcommands alone that resolve no imports", async () => {
  const { success } = await launch("fmt", "--check", "deno.json").output();
  assertEquals(success, true);
});

Deno.test("scripts/deno.ts is replaced by deno, which receives its signals", async () => {
  await using child = launch(
    "eval",
    "console.log(Deno.pid); setInterval(() => {}, 1e6)",
  ).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  assertEquals((await reader.read()).value, `${child.pid}\n`);
  child.kill("SIGTERM");
  assertEquals((await child.status).signal, "SIGTERM");
  await reader.cancel();
});
