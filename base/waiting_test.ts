import { assertEquals, assertRejects } from "@std/assert";
import { type Patience, pollUntil, TurnQueues } from "./waiting.ts";
import { testRows } from "../tests/_harness/table.ts";

/** Waits forever. */
const PATIENT: Patience = { signal: undefined, giveUp: () => new Error() };

/** Waits until the signal. */
function until(signal: AbortSignal): Patience {
  return { signal, giveUp: () => new RangeError("gave up") };
}

testRows(
  "pollUntil() returns the first success",
  [0, 1, 4],
  async (failures) => {
    let attempts = 0;
    const attempt = (): number | undefined =>
      attempts++ < failures ? undefined : attempts;
    assertEquals(await pollUntil(attempt, PATIENT), failures + 1);
  },
  (failures) => `after ${failures} failures`,
);

Deno.test("pollUntil() keeps the event loop running", async () => {
  let isDone = false;
  const polling = pollUntil(() => isDone || undefined, PATIENT);
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
    await assertRejects(() => pollUntil(attempt, PATIENT), TypeError);
  });
});

Deno.test("TurnQueues.takeTurn() has one queue for each name", async () => {
  const queues = new TurnQueues();
  using _one = await queues.takeTurn("one", PATIENT);
  using _other = await queues.takeTurn("other", PATIENT);
});

Deno.test("TurnQueues.takeTurn() gives turns in order", async () => {
  const queues = new TurnQueues();
  const controller = new AbortController();
  const order: string[] = [];
  const take = async (name: string, patience = PATIENT): Promise<void> => {
    using _turn = await queues.takeTurn("queue", patience);
    order.push(`${name} begins`);
    await Deno.stat("/");
    order.push(`${name} ends`);
  };
  const first = take("first");
  const impatient = take("impatient", until(controller.signal));
  const last = take("last");
  controller.abort();
  await assertRejects(() => impatient, RangeError);
  await Promise.all([first, last]);
  assertEquals(order, [
    "first begins",
    "first ends",
    "last begins",
    "last ends",
  ]);
  await take("again");
  assertEquals(order.at(-1), "again ends");
});
