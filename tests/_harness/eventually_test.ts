import { assert, assertEquals, assertRejects } from "@std/assert";
import { eventually } from "./eventually.ts";

Deno.test("eventually() pauses three times as long as an attempt takes", async () => {
  const tries: [beginMs: number, endMs: number][] = [];
  await eventually("the fourth try", () => {
    const beginMs = performance.now();
    while (performance.now() < beginMs + 20);
    tries.push([beginMs, performance.now()]);
    return tries.length === 4;
  });
  assertEquals(tries.length, 4);
  for (const [at, [beginMs, endMs]] of tries.entries()) {
    const [nextMs = Infinity] = tries[at + 1] ?? [];
    // A timer may fire a millisecond early. A rest has an upper bound, too.
    const restMs = Math.min(3 * (endMs - beginMs), 250);
    assert(nextMs - endMs >= restMs - 2, `${nextMs - endMs} of ${restMs} ms`);
  }
});

Deno.test("eventually() fails immediately if an attempt fails", async () => {
  const fail = (): boolean => {
    throw new Error("on purpose");
  };
  await assertRejects(() => eventually("never", fail), Error, "on purpose");
});

Deno.test("eventually() reports the last state at its time limit", async () => {
  const describe = (): Promise<string> => Promise.resolve("but one");
  await assertRejects(
    () => eventually("there are two", () => false, describe, 1),
    Error,
    "Timed out waiting until there are two but one",
  );
});
