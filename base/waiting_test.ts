import { assertEquals, assertRejects } from "@std/assert";
import { type PollOptions, pollUntil } from "./waiting.ts";
import { testRows } from "../tests/_harness/table.ts";

/** Waits forever. */
const FOREVER: PollOptions = { signal: undefined, giveUp: () => new Error() };

/** Waits until the signal. */
function until(signal: AbortSignal): PollOptions {
  return { signal, giveUp: () => new RangeError("gave up") };
}

testRows(
  "pollUntil() returns the first success",
  [0, 1, 4],
  async (failures) => {
    let attempts = 0;
    const attempt = (): number | undefined =>
      attempts++ < failures ? undefined : attempts;
    assertEquals(await pollUntil(attempt, FOREVER), failures + 1);
  },
  (failures) => `after ${failures} failures`,
);

Deno.test("pollUntil() keeps the event loop running", async () => {
  let isDone = false;
  const polling = pollUntil(() => isDone || undefined, FOREVER);
  await Deno.stat("/");
  isDone = true;
  assertEquals(await polling, true);
});

Deno.test("pollUntil() gives up on the signal", async (t) => {
  await t.step("which was there before", async () => {
    let attempts = 0;
    await assertRejects(
      () => pollUntil(() => void attempts++, until(AbortSignal.abort())),
      RangeError,
    );
    assertEquals(attempts, 0);
  });
  await t.step("which comes during a pause", async () => {
    await assertRejects(
      () => pollUntil(() => undefined, until(AbortSignal.timeout(5))),
      RangeError,
    );
  });
  await t.step("and passes on what an attempt throws", async () => {
    const attempt = (): never => {
      throw new TypeError("no");
    };
    await assertRejects(() => pollUntil(attempt, FOREVER), TypeError);
  });
});
