import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { waitUntilDead } from "../../tests/_harness/process_group.ts";
import { runShard, type ShardEnd } from "./run_shard.ts";

/** Runs a script in a new directory. */
async function run(
  script: string,
  onText?: (text: string) => void,
  stop = new AbortController().signal,
): Promise<ShardEnd> {
  const env = { CNI_TEST_VARIABLE: "given" };
  return await runShard(["eval", "--no-config", script], {
    cwd: "/",
    env,
    stop,
    ...onText === undefined ? {} : { onText },
  });
}

Deno.test("runShard() returns both outputs in order", async () => {
  const shown: string[] = [];
  const end = await run(
    "console.log(Deno.cwd()); console.error('two');" +
      "console.log(Deno.env.get('CNI_TEST_VARIABLE')); Deno.exit(3);",
    (text) => shown.push(text),
  );
  assertEquals(end.output, "/\ntwo\ngiven\n");
  assertEquals(shown.join(""), end.output);
  const { code, signal, stopped, leftBehind } = end;
  assertEquals({ code, signal, stopped, leftBehind }, {
    code: 3,
    signal: null,
    stopped: undefined,
    leftBehind: false,
  });
});

Deno.test("runShard() names the signal that killed a process", async () => {
  const end = await run("Deno.kill(Deno.pid, 'SIGABRT')");
  assertEquals(end.signal, "SIGABRT");
  assertEquals(end.stopped, undefined);
});

Deno.test("runShard() ends a process that hangs, and its children", async () => {
  const stop = new AbortController();
  const end = await run(
    "new Deno.Command('sleep', { args: ['60'] }).spawn();" +
      "console.log(Deno.pid); while (true);",
    () => stop.abort("the time is over"),
    stop.signal,
  );
  assertEquals(end.stopped, "the time is over");
  assertEquals(end.signal, "SIGKILL");
  await waitUntilDead(Number(end.output));
});

Deno.test("runShard() starts nothing to last if it is to stop already", async () => {
  const stop = AbortSignal.abort("never mind");
  const end = await run("while (true);", undefined, stop);
  assertEquals(end.stopped, "never mind");
});

Deno.test("runShard() does not wait for what a process left behind", async () => {
  const end = await run(
    "new Deno.Command('sleep', { args: ['60'] }).spawn();" +
      "console.log(Deno.pid); Deno.exit(0);",
  );
  assert(end.leftBehind);
  assertEquals(end.code, 0);
  await waitUntilDead(Number(end.output));
});

Deno.test("runShard() takes the processes along when its own is told to end", async () => {
  const script = 'import { runShard } from "./scripts/test/run_shard.ts";' +
    'import { createStop } from "./scripts/test/stop.ts";' +
    'const end = await runShard(["eval", "--no-config", ' +
    '"console.log(Deno.pid); while (true);"], { cwd: "/", env: {},' +
    "stop: createStop(), onText: (text) => console.log(text) });" +
    "console.log(end.stopped);";
  await using child = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", script],
    cwd: new URL("../..", import.meta.url),
    stdout: "piped",
  }).spawn();
  let text = "";
  for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (text === "") child.kill("SIGTERM");
    text += part;
  }
  assertStringIncludes(text, "SIGTERM has come");
  await waitUntilDead(parseInt(text));
});
