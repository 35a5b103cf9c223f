import { assertEquals, assertThrows } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { CallProgress, type CallState } from "./call_progress.ts";
import { callerOf, shortened } from "./testing.ts";

/** The states of a call in order, and what is then known. */
const lives: [
  states: CallState[],
  runner: CallProgress["runner"],
  mayChangeNode: boolean,
][] = [
  [[], undefined, false],
  [["ended"], "caller", false],
  [["offered"], undefined, false],
  [["offered", "ended"], "caller", false],
  [["offered", "waiting"], "daemon", false],
  [["offered", "waiting", "ended"], "daemon", false],
  [["offered", "waiting", "running"], "daemon", true],
  [["offered", "waiting", "running", "ended"], "daemon", false],
  [["offered", "waiting", "running", "undoing"], "daemon", true],
  [["offered", "waiting", "running", "undoing", "ended"], "daemon", false],
];

Deno.test("CallProgress records who runs a call, and when it may change the node", async (t) => {
  await eachRow(t, lives, async ([states, runner, mayChangeNode]) => {
    const progress = new CallProgress(callerOf());
    for (const state of states) assertEquals(progress.enter(state), true);
    assertEquals(progress.state, states.at(-1) ?? "arriving");
    assertEquals(progress.runner, runner);
    assertEquals(progress.mayChangeNode, mayChangeNode);
    if (runner !== undefined) await progress.decision;
  }, ([states]) => states.join(" ") || "arriving");
});

Deno.test("CallProgress: a finished call enters no other state", () => {
  const progress = new CallProgress(callerOf(), "waiting");
  assertEquals([progress.enter("ended"), progress.enter("running")], [
    true,
    false,
  ]);
  assertEquals([progress.state, progress.runner], ["ended", "daemon"]);
});

Deno.test("CallProgress: a call runs only after it is accepted, and only once", () => {
  const arriving = new CallProgress(callerOf());
  assertThrows(() => arriving.enter("running"), Error, "arriving");
  const running = new CallProgress(callerOf(), "waiting");
  running.enter("running");
  assertThrows(() => running.enter("running"), Error, "cannot be running");
});

Deno.test("CallProgress: a DEL continues for two minutes without its caller", async () => {
  using _ = shortened(120_000);
  const signal = AbortSignal.abort();
  const deleting = new CallProgress(callerOf(signal), "waiting");
  const end = deleting.endSignalOf("DEL");
  assertEquals([deleting.signal.aborted, end.aborted], [true, false]);
  await eventually("the call ends", () => end.aborted);
  const adding = new CallProgress(callerOf(signal), "waiting");
  assertEquals(adding.endSignalOf("ADD").aborted, true);
});
