import { assertEquals, assertThrows } from "@std/assert";
import { Contest } from "./contest.ts";
import { NotYetError } from "./steps.ts";

function mayAct(contest: Contest): boolean {
  try {
    contest.takeTurn();
    return true;
  } catch {
    return false;
  }
}

Deno.test("Contest.takeTurn() allows it at once, then after longer and longer pauses", () => {
  let nowMs = 0;
  const contest = new Contest("/x", () => nowMs);
  const turns: number[] = [];
  for (; nowMs <= 40_000; nowMs += 100) {
    if (mayAct(contest)) turns.push(nowMs);
  }
  assertEquals(turns, [0, 1000, 3000, 7000, 15_000, 25_000, 35_000]);
});

Deno.test("Contest.takeTurn() starts anew after a minute without", () => {
  let nowMs = 0;
  const contest = new Contest("/x", () => nowMs);
  const answers = [0, 1000, 3000, 63_000, 63_900, 64_000].map((ms) => {
    nowMs = ms;
    return mayAct(contest);
  });
  assertEquals(answers, [true, true, true, true, false, true]);
});

Deno.test("Contest.takeTurn() says what is fought over", () => {
  const contest = new Contest("/x", () => 0);
  contest.takeTurn();
  assertThrows(
    () => contest.takeTurn(),
    NotYetError,
    'Cannot put "/x" back yet: another program keeps replacing it',
  );
});
