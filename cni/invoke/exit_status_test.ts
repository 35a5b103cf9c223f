import { assertEquals } from "@std/assert";
import { waitForExit } from "./exit_status.ts";
import { testRows } from "../../tests/_harness/table.ts";

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
