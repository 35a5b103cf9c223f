import { assert, assertEquals } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { collectHeap, HeapCollector } from "./heap_collector.ts";

function collector(
  { fail, againMs }: { fail?: () => never; againMs?: number } = {},
): {
  heap: HeapCollector;
  calls: (count: number) => void;
  state: {
    isIdle: boolean;
    collections: number;
    bytes: number;
    failures: unknown[];
  };
} {
  const failures: unknown[] = [];
  const state = {
    isIdle: true,
    collections: 0,
    bytes: 50 << 20,
    failures,
  };
  const heap = new HeapCollector({
    isIdle: () => state.isIdle,
    collect: () => {
      state.collections++;
      fail?.();
    },
    idleMs: 50,
    ...againMs !== undefined && { againMs },
    readBytes: () => state.bytes,
    onFailed: (error) => failures.push(error),
  });
  const calls = (count: number): void => {
    for (let call = 0; call < count; call++) heap.afterCall();
  };
  return { heap, calls, state };
}

Deno.test("HeapCollector collects once after many calls, when no call waits", async () => {
  const { calls, state } = collector();
  calls(99);
  calls(1);
  calls(50);
  assertEquals(state.collections, 0);
  await eventually("it has collected", () => state.collections === 1);
});

Deno.test("HeapCollector retries after a failed collection", async () => {
  const error = new Error("on purpose");
  const { calls, state } = collector({
    fail: () => {
      throw error;
    },
  });
  for (const collections of [1, 2]) {
    calls(100);
    await eventually("it has tried", () => state.collections === collections);
  }
  await eventually("it has reported", () => state.failures.length === 2);
  assertEquals(state.failures, [error, error]);
});

Deno.test("HeapCollector waits while calls run, up to its limit", async () => {
  const { calls, state } = collector();
  state.isIdle = false;
  calls(999);
  await new Promise((resolve) => setTimeout(resolve, 200));
  assertEquals(state.collections, 0);
  calls(1);
  await eventually("it has collected", () => state.collections === 1);
});

Deno.test("HeapCollector collects after few calls that need much memory", async () => {
  const { calls, state } = collector();
  calls(8);
  state.bytes += 12 << 20;
  calls(8);
  await eventually("it has collected", () => state.collections === 1);
  // Less than that since.
  state.bytes += 11 << 20;
  calls(8);
  state.isIdle = false;
  state.bytes += 1 << 20;
  calls(8);
  await new Promise((resolve) => setTimeout(resolve, 200));
  assertEquals(state.collections, 1);
  state.bytes += 36 << 20;
  calls(8);
  await eventually("it does not wait for ever", () => state.collections === 2);
});

Deno.test("HeapCollector collects without calls, and once more after a pause", async () => {
  const { heap, state } = collector({ againMs: 100 });
  heap.look();
  state.bytes += 12 << 20;
  heap.look();
  await eventually("it has collected", () => state.collections === 1);
  heap.look();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assertEquals(state.collections, 1);
  heap.look();
  await eventually("it has collected again", () => state.collections === 2);
  await new Promise((resolve) => setTimeout(resolve, 200));
  heap.look();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assertEquals(state.collections, 2);
});

Deno.test("HeapCollector frees memory", async () => {
  let isIdle = false;
  const heap = new HeapCollector({
    isIdle: () => isIdle,
    idleMs: 50,
    onFailed: (error) => {
      throw error;
    },
  });
  const before = Deno.memoryUsage().heapUsed;
  let rubbish: unknown[] = Array.from({ length: 1e6 }, (_, at) => ({ at }));
  assertEquals(rubbish.length, 1e6);
  rubbish = [];
  isIdle = true;
  for (let call = 0; call < 100; call++) heap.afterCall();
  await eventually(
    "the heap is small",
    () => Deno.memoryUsage().heapUsed < before + 10e6,
  );
});

Deno.test("collectHeap() returns free memory of the C library to the kernel", async () => {
  const count = 40_000, size = 2000, each = 1000;
  const buffers: (Uint8Array | undefined)[] = Array.from(
    { length: count },
    () => new Uint8Array(size).fill(1),
  );
  const { rss: before } = Deno.memoryUsage();
  buffers.forEach((_, at) => at % each && (buffers[at] = undefined));
  await collectHeap();
  const { rss: after } = Deno.memoryUsage();
  const bytes = count * size;
  assert(after < before - bytes / 2, `${before} bytes, then ${after}`);
  assertEquals(buffers.filter((buffer) => buffer).length, count / each);
});
