import { assert, assertEquals } from "@std/assert";
import { KeyedQueue, ReadWriteLock } from "./queue.ts";

const NEVER = new AbortController().signal;

/** Waits for turns in the background, and keeps a story of them. */
class Story {
  readonly queue: KeyedQueue;
  readonly turns: string[] = [];
  readonly #open = new Map<string, Disposable>();

  constructor(limit: number) {
    this.queue = new KeyedQueue(limit);
  }

  wait(name: string, key?: string, signal = NEVER): Promise<void> {
    return this.queue.wait(key, signal).then((turn) => {
      this.turns.push(turn === undefined ? `${name} gave up` : name);
      if (turn !== undefined) this.#open.set(name, turn);
    });
  }

  async end(name: string): Promise<void> {
    this.#open.get(name)?.[Symbol.dispose]();
    await settle();
  }
}

/** Lets everything run that waits for nothing else. */
function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

Deno.test("KeyedQueue: tasks of one key run one after the other, others beside them", async () => {
  const story = new Story(9);
  for (const name of ["a1", "a2", "b1"]) story.wait(name, name[0]);
  story.wait("free");
  await settle();
  assertEquals(story.turns, ["a1", "b1", "free"]);
  assertEquals([story.queue.running, story.queue.waiting], [3, 1]);
  await story.end("b1");
  await story.end("a1");
  assertEquals(story.turns.at(-1), "a2");
  await story.end("a2");
  await story.end("free");
  assertEquals([story.queue.running, story.queue.waiting], [0, 0]);
});

Deno.test("KeyedQueue: only some run at once, the others in order", async () => {
  const story = new Story(2);
  for (const name of ["a", "b", "c", "d"]) story.wait(name);
  await settle();
  assertEquals(story.turns, ["a", "b"]);
  await story.end("b");
  await story.end("a");
  assertEquals(story.turns, ["a", "b", "c", "d"]);
  assertEquals(story.queue.running, 2);
});

Deno.test("KeyedQueue: a signal ends the wait for a key, and those behind keep their order", async () => {
  const story = new Story(9);
  const { signal, ...controller } = abortable();
  story.wait("1", "a");
  story.wait("2", "a", signal);
  story.wait("3", "a");
  await settle();
  controller.abort();
  await settle();
  assertEquals(story.turns, ["1", "2 gave up"]);
  await story.end("1");
  assertEquals(story.turns, ["1", "2 gave up", "3"]);
});

Deno.test("KeyedQueue: a signal ends the wait for a slot, and no slot is lost", async () => {
  const story = new Story(1);
  const { signal, abort } = abortable();
  for (const name of ["1", "2", "3"]) {
    story.wait(name, undefined, name === "2" ? signal : NEVER);
  }
  await settle();
  abort();
  await settle();
  await story.end("1");
  await story.end("3");
  assertEquals(story.turns, ["1", "2 gave up", "3"]);
  assertEquals(story.queue.running, 0);
  // At the same moment as it gets the slot.
  const last = abortable();
  story.wait("4");
  story.wait("5", undefined, last.signal);
  await settle();
  last.abort();
  await story.end("4");
  await story.end("5");
  assertEquals(story.queue.running, 0);
  assert(story.turns.includes("5 gave up"));
});

function abortable(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}

Deno.test("KeyedQueue: a task that waits gives way to others", async () => {
  const queue = new KeyedQueue(1);
  using first = await queue.wait("a", NEVER);
  assert(first);
  const waits = [1, 2].map(() => Promise.withResolvers<void>());
  const waiting = waits.map(({ promise }) => first.yieldDuring(() => promise));
  assertEquals([queue.running, queue.yielding], [0, 1]);
  const second = await queue.wait("b", NEVER);
  assertEquals(queue.running, 1);
  waits[0]?.resolve();
  await waiting[0];
  waits[1]?.resolve();
  let isBack = false;
  waiting[1]?.then(() => isBack = true);
  await settle();
  assertEquals([isBack, queue.running, queue.yielding], [false, 1, 1]);
  second?.[Symbol.dispose]();
  await waiting[1];
  assertEquals([queue.running, queue.yielding], [1, 0]);
});

Deno.test("KeyedQueue: a task that comes back and waits again keeps no slot", async () => {
  const queue = new KeyedQueue(1);
  const first = await queue.wait("a", NEVER);
  assert(first);
  const { promise, resolve } = Promise.withResolvers<void>();
  const { promise: later, resolve: endLater } = Promise.withResolvers<void>();
  const early = first.yieldDuring(() => promise);
  const second = await queue.wait("b", NEVER);
  resolve();
  await settle();
  // It has no slot that it could give to the third.
  const late = first.yieldDuring(() => later);
  let isThird = false;
  const third = queue.wait("c", NEVER).then((turn) => {
    isThird = true;
    return turn;
  });
  await settle();
  assertEquals([isThird, queue.running], [false, 1]);
  second?.[Symbol.dispose]();
  await early;
  await settle();
  assertEquals([isThird, queue.running, queue.yielding], [true, 1, 1]);
  endLater();
  (await third)?.[Symbol.dispose]();
  await late;
  assertEquals([queue.running, queue.yielding], [1, 0]);
  first[Symbol.dispose]();
  assertEquals([queue.running, queue.waiting], [0, 0]);
});

Deno.test("KeyedQueue: a task that ends while it waits takes no slot later", async () => {
  const queue = new KeyedQueue(1);
  const first = await queue.wait("a", NEVER);
  const { promise, resolve } = Promise.withResolvers<void>();
  const waiting = first?.yieldDuring(() => promise);
  const second = await queue.wait("b", NEVER);
  first?.[Symbol.dispose]();
  assertEquals(queue.running, 1);
  resolve();
  await waiting;
  second?.[Symbol.dispose]();
  assertEquals([queue.running, queue.waiting], [0, 0]);
});

Deno.test("KeyedQueue: tasks that return come first, then those whose turn is first", async () => {
  const queue = new KeyedQueue(1);
  const first = await queue.wait("a", NEVER);
  const { promise, resolve } = Promise.withResolvers<void>();
  const turns: string[] = [];
  const note = (name: string) => (slot?: Disposable): void => {
    turns.push(name);
    slot?.[Symbol.dispose]();
  };
  const returning = first?.yieldDuring(() => promise).then(() => note("a")());
  const second = await queue.wait("b", NEVER);
  const waiting = [
    queue.wait("c", NEVER).then(note("c")),
    queue.wait("d", NEVER, { turn: "first" }).then(note("d")),
  ];
  resolve();
  await queue.wait("e", NEVER, { turn: "without a slot" }).then(note("e"));
  await settle();
  assertEquals([turns, queue.running], [["e"], 1]);
  second?.[Symbol.dispose]();
  await returning;
  first?.[Symbol.dispose]();
  await Promise.all(waiting);
  assertEquals(turns, ["e", "a", "d", "c"]);
  assertEquals([queue.running, queue.waiting], [0, 0]);
});

Deno.test("KeyedQueue: tasks that yield count as begun until they end", async () => {
  const queue = new KeyedQueue(1, 2);
  const wait = (): Promise<void> => new Promise(() => {});
  const tasks = [await queue.wait("a", NEVER)];
  tasks[0]?.yieldDuring(wait);
  tasks.push(await queue.wait("b", NEVER));
  tasks[1]?.yieldDuring(wait);
  const { signal, abort } = abortable();
  const aborted = queue.wait("c", signal);
  const third = queue.wait("d", NEVER);
  abort();
  assertEquals(await aborted, undefined);
  assertEquals(queue.running, 0);
  tasks[0]?.[Symbol.dispose]();
  const slot = await third;
  assertEquals(queue.running, 1);
  slot?.[Symbol.dispose]();
});

Deno.test("KeyedQueue: a task whose signal is aborted returns without a slot", async () => {
  const queue = new KeyedQueue(1);
  const { signal, abort } = abortable();
  const first = await queue.wait("a", signal);
  const { promise, resolve } = Promise.withResolvers<void>();
  const returning = first?.yieldDuring(() => promise);
  const second = await queue.wait("b", NEVER);
  resolve();
  await settle();
  abort();
  await returning;
  assertEquals(queue.running, 1);
  first?.[Symbol.dispose]();
  second?.[Symbol.dispose]();
  assertEquals([queue.running, queue.waiting], [0, 0]);
});

Deno.test("ReadWriteLock: exclusive work runs alone, in the order in which it came", async () => {
  const lock = new ReadWriteLock();
  const turns: string[] = [];
  const held = new Map<string, Disposable>();
  const wait = async (name: string): Promise<void> => {
    const one = await lock.wait(name.startsWith("GC"));
    turns.push(name);
    if (one !== undefined) held.set(name, one);
  };
  const end = async (name: string): Promise<void> => {
    held.get(name)?.[Symbol.dispose]();
    await settle();
  };
  for (const name of ["a", "b", "GC1", "c", "GC2", "d"]) wait(name);
  await settle();
  assertEquals(turns, ["a", "b"]);
  await end("a");
  await end("b");
  assertEquals(turns.slice(2), ["GC1"]);
  await end("GC1");
  assertEquals(turns.slice(3), ["c"]);
  await end("c");
  assertEquals(turns.slice(4), ["GC2"]);
  await end("GC2");
  assertEquals(turns.slice(5), ["d"]);
  await end("d");
});

Deno.test("ReadWriteLock: others pass exclusive work that waits for slow work", async () => {
  const lock = new ReadWriteLock(1);
  const slow = await lock.wait(false);
  const turns: string[] = [];
  const collecting = lock.wait(true).then((held) => {
    turns.push("GC");
    return held;
  });
  const later = [await lock.wait(false), await lock.wait(false)];
  for (const one of [slow, ...later]) {
    assertEquals(turns, []);
    one?.[Symbol.dispose]();
  }
  (await collecting)?.[Symbol.dispose]();
  (await lock.wait(false))?.[Symbol.dispose]();
});

Deno.test("ReadWriteLock: exclusive work that gives up holds up nobody", async () => {
  const lock = new ReadWriteLock();
  const slow = await lock.wait(false);
  const { signal, abort } = abortable();
  const collecting = lock.wait(true, signal);
  const later = lock.wait(false);
  abort();
  assertEquals(await collecting, undefined);
  (await later)?.[Symbol.dispose]();
  slow?.[Symbol.dispose]();
  (await lock.wait(true))?.[Symbol.dispose]();
});
