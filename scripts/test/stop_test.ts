import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";

/** Runs in a separate process, which receives the signals. */
async function runScript(
  limitMs: number,
  onReady: (child: Deno.ChildProcess) => void,
): Promise<string> {
  const script = 'import { createStop } from "./scripts/test/stop.ts";' +
    `const stop = createStop(${limitMs});` +
    'stop.addEventListener("abort", () => {' +
    "  console.log(stop.reason); Deno.exit(); });" +
    'console.log("ready"); setTimeout(() => {}, 60_000);';
  await using child = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", script],
    cwd: new URL("../..", import.meta.url),
    stdout: "piped",
  }).spawn();
  let text = "";
  for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (text === "") onReady(child);
    text += part;
  }
  return text;
}

Deno.test("createStop() says which limit is over", async () => {
  const text = await runScript(50, () => {});
  assertEquals(text, "ready\nthe limit of 0.05 s for all tests is over\n");
});

testRows(
  "createStop() hears what ends a process",
  ["SIGINT", "SIGTERM", "SIGHUP"] as const,
  async (signal) => {
    const text = await runScript(60_000, (child) => child.kill(signal));
    assertEquals(text, `ready\n${signal} has come\n`);
  },
);
