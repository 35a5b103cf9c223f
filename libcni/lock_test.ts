import {
  assertEquals,
  assertRejects,
  assertStringIncludes,
  fail,
} from "@std/assert";
import { join } from "@std/path/posix";
import { importFlags } from "../scripts/import_flags.ts";
import { CniError, ErrorCode } from "../base/error.ts";
import { createLog } from "../base/log/log.ts";
import { AttachmentLocks, lockDirectoryOf, type LockOptions } from "./lock.ts";
import { eachRow } from "../tests/_harness/table.ts";

/** How long a test waits for an event that must happen, in milliseconds. */
const DEADLINE_MS = 20_000;
/** How long a test waits for an event that must not happen, in milliseconds. */
const GLANCE_MS = 60;

/** Locks in a directory of their own, and processes that use the same. */
class Fixture implements AsyncDisposable {
  readonly base: string = Deno.makeTempDirSync({ prefix: "cni-locks-" });
  readonly directory: string = join(this.base, "locks");
  readonly locks: AttachmentLocks = new AttachmentLocks(this.directory);
  readonly #processes: Deno.ChildProcess[] = [];

  /** Starts a process that runs a script with `locks`. */
  async spawn(script: string): Promise<Deno.ChildProcess> {
    const module = new URL("lock.ts", import.meta.url);
    const process = new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        ...await importFlags(),
        `import { AttachmentLocks } from "${module}";
         const locks = new AttachmentLocks("${this.directory}");
         ${script}`,
      ],
      cwd: new URL("..", import.meta.url),
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#processes.push(process);
    return process;
  }

  /** Starts one whose script prints a line when it has a lock. */
  async spawnUntilLocked(script: string): Promise<Deno.ChildProcess> {
    const process = await this.spawn(script);
    const reader = process.stdout.getReader();
    const { value } = await reader.read();
    reader.releaseLock();
    assertEquals(new TextDecoder().decode(value), "locked\n");
    return process;
  }

  /** Starts one that holds a lock until its stdin ends, or it does. */
  spawnHolder(acquire: string): Promise<Deno.ChildProcess> {
    return this.spawnUntilLocked(
      `const lock = await locks.${acquire};
       console.log("locked");
       for await (const _ of Deno.stdin.readable);
       lock[Symbol.dispose]();`,
    );
  }

  /** Lists the directory. */
  list(): string[] {
    return [...Deno.readDirSync(this.directory)].map(({ name }) => name).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#processes) {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
      await end(process);
    }
    await Deno.remove(this.base, { recursive: true });
  }
}

/** Lets a process end by itself. */
async function end(process: Deno.ChildProcess): Promise<void> {
  if (!process.stdin.locked) await process.stdin.close().catch(() => {});
  if (!process.stdout.locked) await process.stdout.cancel();
  await process.status;
}

/** Asserts that a lock is held elsewhere, and returns the error. */
async function assertBusy(
  acquire: (options: { signal: AbortSignal }) => Promise<Disposable>,
): Promise<string> {
  const signal = AbortSignal.timeout(GLANCE_MS);
  const error = await assertRejects(() => acquire({ signal }), CniError);
  assertEquals(error.code, ErrorCode.TryAgainLater);
  assertStringIncludes(error.details, "timeout");
  return error.message;
}

/** Waits for a lock and releases it. */
async function assertFree(
  acquire: (options: { signal: AbortSignal }) => Promise<Disposable>,
): Promise<void> {
  using _lock = await acquire({ signal: AbortSignal.timeout(DEADLINE_MS) });
}

Deno.test("AttachmentLocks.lockContainer() excludes other processes", async () => {
  await using fixture = new Fixture();
  const { locks } = fixture;
  const holder = await fixture.spawnHolder('lockContainer("c1")');
  assertEquals(
    await assertBusy((options) => locks.lockContainer("c1", options)),
    `Cannot lock container "c1": held by process ${holder.pid} ` +
      '(container "c1")',
  );
  await assertFree((options) => locks.lockContainer("c2", options));
  const waiting = locks.lockContainer("c1");
  await end(holder);
  using _lock = await waiting;
  assertEquals(fixture.list(), [".all", ".gate", "c1"]);
});

Deno.test("AttachmentLocks fails at its time limit, and names the holder", async (t) => {
  await using fixture = new Fixture();
  const own = `process ${Deno.pid}`;
  const lines: string[] = [];
  const log = createLog({}, (line) => lines.push(line));
  const options: LockOptions = { limitMs: 300, noticeMs: 0, log };
  const other = new AttachmentLocks(fixture.directory);
  const held = await fixture.locks.lockContainer("c1");
  await t.step("of a container", async () => {
    const error = await assertRejects(
      () => other.lockContainer("c1", options),
      CniError,
    );
    assertEquals(error.code, ErrorCode.TryAgainLater);
    const holder = `${own} (container "c1")`;
    assertEquals(
      error.message,
      `Cannot lock container "c1": held by ${holder}`,
    );
    assertEquals(lines, [
      'level=warn msg="Waiting for the lock on container \\"c1\\"" ' +
      `holder=${JSON.stringify(holder)}\n`,
    ]);
  });
  await t.step("of all containers, even with a later signal", async () => {
    const { signal } = new AbortController();
    const error = await assertRejects(
      () => other.lockExclusively({ ...options, signal }),
      CniError,
    );
    assertEquals(
      error.message,
      `Cannot lock all containers: held by ${own} (container "c1")`,
    );
    assertEquals(lines.length, 2);
  });
  held[Symbol.dispose]();
});

Deno.test("AttachmentLocks.lockContainer() succeeds after the holder was killed", async () => {
  await using fixture = new Fixture();
  const holder = await fixture.spawnHolder('lockContainer("c1")');
  holder.kill("SIGKILL");
  await end(holder);
  assertEquals(fixture.list(), [".all", ".gate", "c1"]);
  await assertFree((options) => fixture.locks.lockContainer("c1", options));
  assertEquals(fixture.list(), [".all", ".gate"]);
});

Deno.test("AttachmentLocks.lockContainer() keeps its lock while files are created and removed", async () => {
  await using fixture = new Fixture();
  const counter = join(fixture.base, "counter");
  await Deno.writeTextFile(counter, "0");
  // Reads, waits and writes: two at one time would lose a count.
  const script = `const count = async () => {
      for (let i = 0; i < 60; i++) {
        using lock = await locks.lockContainer("c1");
        const before = Number(await Deno.readTextFile("${counter}"));
        await Deno.writeTextFile("${counter}", String(before + 1));
      }
    };
    await Promise.all([count(), count()]);`;
  const processes = await Promise.all(
    Array.from({ length: 3 }, () => fixture.spawn(script)),
  );
  await Promise.all(processes.map((process) => end(process)));
  assertEquals(await Deno.readTextFile(counter), String(3 * 2 * 60));
  assertEquals(fixture.list(), [".all", ".gate"]);
});

Deno.test("AttachmentLocks.lockContainer() serves requests of a process in order", async () => {
  await using fixture = new Fixture();
  const order: number[] = [];
  await Promise.all([1, 2, 3, 4, 5].map(async (number) => {
    using _lock = await fixture.locks.lockContainer("c1");
    order.push(number);
    await Deno.stat(fixture.directory);
    order.push(number);
  }));
  assertEquals(order, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
});

Deno.test("AttachmentLocks.lockContainer() keeps the order when a waiter gives up", async () => {
  await using fixture = new Fixture();
  const { locks } = fixture;
  const first = await locks.lockContainer("c1");
  const impatient = assertBusy((options) => locks.lockContainer("c1", options));
  const order: string[] = [];
  const last = locks.lockContainer("c1").then((lock) => {
    order.push("last begins");
    return lock;
  });
  assertStringIncludes(await impatient, `process ${Deno.pid} (container "c1")`);
  order.push("first ends");
  first[Symbol.dispose]();
  using _lock = await last;
  assertEquals(order, ["first ends", "last begins"]);
});

Deno.test("AttachmentLocks.lockContainer() does not start after the signal", async () => {
  await using fixture = new Fixture();
  const signal = AbortSignal.abort();
  const error = await assertRejects(
    () => fixture.locks.lockContainer("c1", { signal }),
    CniError,
  );
  assertEquals(error.code, ErrorCode.TryAgainLater);
  assertEquals(error.message, 'Cannot lock container "c1": it is in use');
});

Deno.test("AttachmentLocks.lockExclusively() and all other locks exclude each other", async (t) => {
  await t.step("while a container is locked", async () => {
    await using fixture = new Fixture();
    const { locks } = fixture;
    const holder = await fixture.spawnHolder('lockContainer("c1")');
    assertEquals(
      await assertBusy((options) => locks.lockExclusively(options)),
      `Cannot lock all containers: held by process ${holder.pid} ` +
        '(container "c1")',
    );
    await assertFree((options) => locks.lockContainer("c2", options));
    await end(holder);
    await assertFree((options) => locks.lockExclusively(options));
  });
  await t.step("while another exclusive lock is held", async () => {
    await using fixture = new Fixture();
    const { locks } = fixture;
    const holder = await fixture.spawnHolder("lockExclusively()");
    const gc = `process ${holder.pid} (garbage collection)`;
    assertEquals(
      await assertBusy((options) => locks.lockContainer("c1", options)),
      `Cannot lock container "c1": held by ${gc}`,
    );
    assertEquals(
      await assertBusy((options) => locks.lockExclusively(options)),
      `Cannot lock all containers: held by ${gc}`,
    );
    await end(holder);
    await assertFree((options) => locks.lockContainer("c1", options));
  });
});

Deno.test("AttachmentLocks.lockExclusively() takes precedence over later requests", async () => {
  await using fixture = new Fixture();
  const { locks } = fixture;
  const order: string[] = [];
  const log = (text: string) => (lock: Disposable): Disposable => {
    order.push(text);
    return lock;
  };
  const before = await locks.lockContainer("c1");
  const gc = locks.lockExclusively().then(log("gc"));
  // One that asks now is held up by it, though c1 alone is locked.
  assertStringIncludes(
    await assertBusy((options) => locks.lockContainer("c2", options)),
    "(garbage collection)",
  );
  const after = locks.lockContainer("c2").then(log("c2"));
  before[Symbol.dispose]();
  (await gc)[Symbol.dispose]();
  (await after)[Symbol.dispose]();
  assertEquals(order, ["gc", "c2"]);
});

Deno.test("AttachmentLocks.lockExclusively() lets other containers proceed during a slow operation", async () => {
  await using fixture = new Fixture();
  const { locks } = fixture;
  const slow = await locks.lockContainer("c1");
  const gc = locks.lockExclusively({ gateMs: 50 });
  for (let turn = 0; turn < 3; turn++) {
    await assertFree((options) => locks.lockContainer("c2", options));
    await assertBusy((options) => locks.lockExclusively(options));
  }
  slow[Symbol.dispose]();
  using _gc = await gc;
  await assertBusy((options) => locks.lockContainer("c2", options));
});

Deno.test("AttachmentLocks.lockExclusively() does not starve", async () => {
  await using fixture = new Fixture();
  const busy = join(fixture.base, "busy");
  await Deno.mkdir(busy);
  // They lock all the time, and leave a mark while they have a lock.
  await Promise.all(["a", "b", "c"].map((name) =>
    fixture.spawnUntilLocked(
      `const mark = "${busy}/${name}";
       for (let i = 0;; i++) {
         using lock = await locks.lockContainer("${name}" + i % 2);
         await Deno.writeTextFile(mark, "");
         await Deno.remove(mark);
         if (i === 0) console.log("locked");
       }`,
    )
  ));
  for (let i = 0; i < 10; i++) {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    using _lock = await fixture.locks.lockExclusively({ signal });
    for await (const { name } of Deno.readDir(busy)) fail(`${name} is at work`);
  }
});

Deno.test("AttachmentLocks.lockExclusively() removes files of killed processes", async () => {
  await using fixture = new Fixture();
  const holder = await fixture.spawnHolder('lockContainer("c1")');
  holder.kill("SIGKILL");
  await end(holder);
  using _lock = await fixture.locks.lockExclusively();
  assertEquals(fixture.list(), [".all", ".gate"]);
});

Deno.test("AttachmentLocks creates its directory and files for the owner only", async () => {
  await using fixture = new Fixture();
  using _lock = await fixture.locks.lockContainer("c1");
  const modes = [".", ".all", ".gate", "c1"].map((name) =>
    (Deno.statSync(join(fixture.directory, name)).mode ?? 0) & 0o777
  );
  assertEquals(modes, [0o700, 0o600, 0o600, 0o600]);
});

Deno.test("AttachmentLocks refuses invalid container IDs", async (t) => {
  const rows: [name: string, id: string, code: number, message: string][] = [
    ["no ID", "", 3, "missing containerID"],
    ["a path", "../x", 4, "invalid characters in containerID"],
    ["a file of its own", ".all", 4, "invalid characters in containerID"],
    ["a name too long for a file", "x".repeat(256), 5, "Cannot lock"],
  ];
  await eachRow(t, rows, async ([, id, code, message]) => {
    await using fixture = new Fixture();
    const error = await assertRejects(
      () => fixture.locks.lockContainer(id),
      CniError,
    );
    assertEquals(error.code, code);
    assertStringIncludes(error.message, message);
    // Nothing is held after a failure.
    await assertFree((options) => fixture.locks.lockExclusively(options));
  });
  await t.step("a directory that is a file", async () => {
    await using fixture = new Fixture();
    await Deno.writeTextFile(fixture.directory, "in the way");
    const error = await assertRejects(
      () => fixture.locks.lockExclusively(),
      CniError,
    );
    assertEquals(
      [error.code, error.message],
      [5, `Cannot lock "${fixture.directory}/.gate"`],
    );
  });
});

Deno.test("lockDirectoryOf() returns a directory next to the cache", () => {
  assertEquals(lockDirectoryOf(), "/var/lib/cni/locks");
  assertEquals(lockDirectoryOf("/run/cni"), "/run/cni/locks");
});
