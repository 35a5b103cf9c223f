import { assert, assertEquals } from "@std/assert";
import { killIfAlive } from "../../tests/_harness/process_group.ts";
import { runToEnd, waitForExit } from "./child.ts";
import { testRows } from "../../tests/_harness/table.ts";

const utf8 = new TextEncoder();

function spawn(script: string, detached = false): Deno.ChildProcess {
  return new Deno.Command("sh", {
    args: ["-c", script],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    detached,
  }).spawn();
}

Deno.test("runToEnd() decodes what arrives in pieces", async () => {
  // The bytes of one character, each on its own, and an invalid one.
  const pieces = ["\\303", "\\244", "\\342", "\\202", "\\254", "\\377"];
  const script = pieces.map((byte) => `printf '${byte}'; sleep 0.02`);
  const { stdout } = await runToEnd(
    spawn(script.join("; ")),
    new Uint8Array(),
    undefined,
  );
  assertEquals(stdout, "ä€\ufffd");
});

Deno.test("runToEnd() leaves alone what has ended when the signal comes", async () => {
  const abort = new AbortController();
  const child = spawn("echo a; exit 3", true);
  await child.status;
  const ending = runToEnd(child, utf8.encode("{}"), abort.signal);
  queueMicrotask(() => abort.abort());
  assertEquals((await ending).cause, "exit status 3");
});

Deno.test("runToEnd() does not wait until somebody reads what is left of the input", async () => {
  // The background process has the pipe, and does not read from it.
  const script = "exec 3<&0; sleep 60 <&3 >/dev/null 2>&1 & echo $!";
  const startMs = performance.now();
  const { stdout, success } = await runToEnd(
    spawn(script),
    new Uint8Array(1024 * 1024),
    undefined,
  );
  killIfAlive(Number(stdout));
  assertEquals(success, true);
  assert(performance.now() - startMs < 30_000);
});

Deno.test("runToEnd() reads what was printed while this process stood still", async () => {
  // It prints after its parent has ended, as if the pipe were read late.
  const child = spawn("(sleep 0.3; printf late) &");
  const ending = runToEnd(child, new Uint8Array(), undefined);
  await child.status;
  await Promise.resolve();
  // Longer than the wait for the output of a process that has ended.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000);
  assertEquals((await ending).stdout, "late");
});

testRows("waitForExit() tells the end as Go does", [
  ["success", "exit 0", true, "exit status 0"],
  ["failure", "exit 3", false, "exit status 3"],
  ["the greatest status", "exit 255", false, "exit status 255"],
  // What a shell makes of a signal is a status.
  ["a child's signal", "sh -c 'kill -9 $$'; exit $?", false, "exit status 137"],
  ["SIGKILL", "kill -KILL $$", false, "signal: killed"],
  ["SIGTERM", "kill -TERM $$", false, "signal: terminated"],
  ["SIGSEGV", "kill -SEGV $$", false, "signal: segmentation fault"],
  ["SIGABRT", "kill -ABRT $$", false, "signal: aborted"],
  ["SIGBUS", "kill -BUS $$", false, "signal: bus error"],
  ["SIGHUP", "kill -HUP $$", false, "signal: hangup"],
  ["SIGPWR", "kill -PWR $$", false, "signal: power failure"],
  ["a real-time signal", "kill -34 $$", false, "signal: signal 34"],
], async ([, script, success, cause]: [string, string, boolean, string]) => {
  const child = new Deno.Command("sh", {
    args: ["-c", `ulimit -c 0; ${script}`],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  assertEquals(await waitForExit(child), { success, cause });
});
