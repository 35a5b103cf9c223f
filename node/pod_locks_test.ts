import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../base/error.ts";
import { PodLocks } from "./pod_locks.ts";

const { signal } = new AbortController();
const POD = { namespace: "default", name: "web" };

/** Says whether a promise is settled once all that is due has been done. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  promise.then(() => settled = true, () => settled = true);
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  return settled;
}

Deno.test("PodLocks.lock() serves who wants one pod in turn", async () => {
  const locks = new PodLocks();
  const order: number[] = [];
  const first = await locks.lock(POD, signal);
  const others = [1, 2, 3].map(async (number) => {
    using _lock = await locks.lock({ ...POD }, signal);
    order.push(number);
  });
  assertEquals(await isSettled(Promise.race(others)), false);
  first[Symbol.dispose]();
  await Promise.all(others);
  assertEquals(order, [1, 2, 3]);
});

Deno.test("PodLocks.lock() keeps nobody from another pod", async () => {
  const locks = new PodLocks();
  using _web = await locks.lock(POD, signal);
  using _db = await locks.lock({ ...POD, name: "db" }, signal);
  using _other = await locks.lock({ ...POD, namespace: "other" }, signal);
});

Deno.test("PodLocks.lock() gives up at the signal, and those behind go on", async () => {
  const locks = new PodLocks();
  const first = await locks.lock(POD, signal);
  const impatient = new AbortController();
  const second = locks.lock(POD, impatient.signal);
  const third = locks.lock(POD, signal);
  impatient.abort();
  const error = await assertRejects(() => second, CniError);
  assertEquals(error.code, 11);
  assertEquals(
    error.message,
    'Cannot lock pod "default/web": another operation on it is under way',
  );
  assertEquals(await isSettled(third), false);
  first[Symbol.dispose]();
  using _third = await third;
});
