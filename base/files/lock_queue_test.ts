import { assertEquals, assertRejects } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { countTimeouts } from "../../tests/_harness/timeouts.ts";
import { CniError } from "../error.ts";
import { FileLock } from "./lock.ts";
import { readLocks } from "./lock_holders.ts";

/** Files that are locked until disposal. */
class LockedFiles implements Disposable {
  readonly directory: string = Deno.makeTempDirSync();
  readonly paths: readonly string[];
  readonly #locks = new DisposableStack();

  constructor(count: number) {
    this.paths = Array.from(
      { length: count },
      (_, i) => `${this.directory}/${i}`,
    );
    for (const path of this.paths) {
      this.#locks.use(FileLock.tryAcquire(path));
    }
  }

  /**
   * Counts the entries of the kernel's queues for these files. A look may miss some
   * while other programs lock and unlock files.
   */
  countQueued(): number {
    const inodes = this.paths.map((path) => Deno.statSync(path).ino);
    const counts = new Map<number, number>();
    // A lock is followed by its waiters, and may be shown twice.
    for (const lock of readLocks().split(/^(?=\d+: FLOCK )/m)) {
      const inode = Number(/:(\d+) \d+ EOF$/m.exec(lock)?.[1]);
      if (!inodes.includes(inode)) continue;
      counts.set(inode, [...lock.matchAll(/^\d+: -> FLOCK /gm)].length);
    }
    return counts.values().reduce((sum, count) => sum + count, 0);
  }

  unlock(): void {
    this.#locks.dispose();
  }

  [Symbol.dispose](): void {
    this.unlock();
    Deno.removeSync(this.directory, { recursive: true });
  }
}

// This test comes first: threads of another test's waiters end some time after that.
Deno.test("FileLock: a free file is locked without a wait while tasks wait for others", async () => {
  using files = new LockedFiles(1);
  const [path = ""] = files.paths;
  const waiter = FileLock.acquireExisting(path);
  await eventually("it waits", () => files.countQueued() > 0);
  const timeouts = countTimeouts(0);
  const free = await FileLock.acquire(`${files.directory}/free`, 0o600);
  free[Symbol.dispose]();
  files.unlock();
  (await waiter)[Symbol.dispose]();
  assertEquals(await timeouts, 0);
});

Deno.test("FileLock: of many waiters for a file one uses a thread, and all get it in order", async () => {
  using files = new LockedFiles(1);
  const [path = ""] = files.paths;
  const order: number[] = [];
  const waiters = Array.from({ length: 64 }, async (_, i) => {
    using _lock = await FileLock.acquireExisting(path);
    order.push(i);
    // Every other program is kept out.
    assertEquals(FileLock.tryAcquire(path), undefined);
    await Deno.stat(path);
  });
  await eventually("the first waits", () => files.countQueued() > 0);
  // There are threads left for asynchronous work.
  await Promise.all(waiters.map(() => Deno.stat(path)));
  await eventually("one waits", () => files.countQueued() === 1);
  files.unlock();
  await Promise.all(waiters);
  assertEquals(order, waiters.map((_, i) => i));
});

Deno.test("FileLock: a waiter whose signal comes leaves its place to the next", async () => {
  using files = new LockedFiles(1);
  const [path = ""] = files.paths;
  const controllers = Array.from({ length: 4 }, () => new AbortController());
  const waiters = controllers.map(({ signal }) =>
    FileLock.acquireExisting(path, { signal })
  );
  await eventually("the first waits", () => files.countQueued() > 0);
  for (const i of [0, 2]) {
    controllers[i]?.abort();
    const { code, details } = await assertRejects(
      async () => await waiters[i],
      CniError,
    );
    assertEquals(code, 11);
    assertEquals(
      details.startsWith("context canceled: it is still held by process "),
      true,
      details,
    );
  }
  await eventually("one waits", () => files.countQueued() === 1);
  files.unlock();
  (await waiters[1])?.[Symbol.dispose]();
  (await waiters[3])?.[Symbol.dispose]();
});

Deno.test("FileLock: a lock that comes when nobody waits any more is released", async () => {
  using files = new LockedFiles(1);
  const [path = ""] = files.paths;
  const wait = { limitMs: 20, noticeMs: 20 };
  await assertRejects(() => FileLock.acquireExisting(path, wait), CniError);
  // The next one waits in its place.
  await assertRejects(() => FileLock.acquireExisting(path, wait), CniError);
  await eventually("one waits", () => files.countQueued() === 1);
  files.unlock();
  const isFree = (): boolean => {
    using lock = FileLock.tryAcquire(path);
    return lock !== undefined;
  };
  await eventually("it is free", isFree);
});

Deno.test("FileLock: waiters for many files use few threads", async () => {
  using files = new LockedFiles(40);
  const waiters = files.paths.map(async (path) => {
    using _lock = await FileLock.acquireExisting(path);
  });
  await eventually("they wait", () => files.countQueued() > 1);
  await Promise.all(waiters.map(() => Deno.stat("/")));
  assertEquals(files.countQueued() <= 8, true);
  files.unlock();
  await Promise.all(waiters);
});

Deno.test("FileLock: a waiter in memory ends at its signal too", async () => {
  using files = new LockedFiles(12);
  const controller = new AbortController();
  const { signal } = controller;
  const waiters = files.paths.map((path) =>
    FileLock.acquireExisting(path, { signal })
  );
  await eventually("they wait", () => files.countQueued() > 0);
  controller.abort();
  for (const waiter of waiters) {
    await assertRejects(() => waiter, CniError);
  }
  files.unlock();
});
