import { assertEquals, assertThrows } from "@std/assert";
import { eachRow } from "../../tests/_harness/table.ts";
import { CallProgress, type CallState } from "./call_progress.ts";

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

Deno.test("CallProgress knows who runs a call, and when it may change the node", async (t) => {
  await eachRow(t, lives, async ([states, runner, mayChangeNode]) => {
    const progress = new CallProgress();
    for (const state of states) assertEquals(progress.enter(state), true);
    assertEquals(progress.state, states.at(-1) ?? "arriving");
    assertEquals(progress.runner, runner);
    assertEquals(progress.mayChangeNode, mayChangeNode);
    if (runner !== undefined) await progress.decision;
  }, ([states]) => states.join(" ") || "arriving");
});

Deno.test("CallProgress: a call that has ended enters no other state", () => {
  const progress = new CallProgress("waiting");
  assertEquals([progress.enter("ended"), progress.enter("running")], [
    true,
    false,
  ]);
  assertEquals([progress.state, progress.runner], ["ended", "daemon"]);
});

Deno.test("CallProgress: a call does not run before it is taken, nor twice", () => {
  const arriving = new CallProgress();
  assertThrows(() => arriving.enter("running"), Error, "arriving");
  const running = new CallProgress("waiting");
  running.enter("running");
  assertThrows(() => running.enter("running"), Error, "cannot be running");
});
