import { AsyncLocalStorage } from "node:async_hooks";
import { assertEquals, assertRejects } from "@std/assert";
import { pause } from "./deadline.ts";
import {
  enableYielding,
  withoutSlot,
  withSlot,
  yieldIfLong,
} from "./long_wait.ts";

/** Waits as a call, and counts how often it yields. */
async function countYields(wait: () => Promise<void>): Promise<number> {
  let count = 0;
  await withSlot(async (wait) => {
    count++;
    return await wait();
  }, () => yieldIfLong(wait));
  return count;
}

Deno.test("yieldIfLong() yields only during a long wait of a call", async () => {
  enableYielding(new AsyncLocalStorage());
  assertEquals(await countYields(() => Promise.resolve()), 0);
  assertEquals(await countYields(() => pause(600)), 1);
  assertEquals(await yieldIfLong(() => Promise.resolve(1)), 1);
  const shared = (): Promise<void> => yieldIfLong(() => pause(600));
  assertEquals(await countYields(() => withoutSlot(shared)), 1);
});

Deno.test("yieldIfLong() fails as the wait does", async () => {
  enableYielding(new AsyncLocalStorage());
  const fail = (): Promise<void> => Promise.reject(new Error("no"));
  await assertRejects(() => countYields(fail), Error, "no");
  const failLate = async (): Promise<void> => {
    await pause(600);
    throw new Error("late");
  };
  await assertRejects(() => countYields(failLate), Error, "late");
});
