import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { dirname } from "@std/path/posix";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { CniError, ErrorCode } from "../error.ts";
import { FileLock, lockPrivately, readIfLocked } from "./lock.ts";
import { ifPossible } from "./io.ts";
import { createLog } from "../log/log.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";
import { countTimeouts } from "../../tests/_harness/timeouts.ts";

/** Runs `test` with the path of a file that does not exist yet. */
async function withPath(test: (path: string) => unknown): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(`${directory}/lock`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** Says whether flock(1) gets the lock at once. */
function isFree(path: string): boolean {
  return new Deno.Command("flock", { args: ["--nonblock", path, "true"] })
    .outputSync().success;
}

/** Says whether a process has a file open. */
function hasOpen(pid: number, path: string): boolean {
  const directory = `/proc/${pid}/fd`;
  return [...Deno.readDirSync(directory)].some(({ name }) =>
    ifPossible(() => Deno.readLinkSync(`${directory}/${name}`)) === path
  );
}

/** Starts a process that prints a line once it has the lock, and then keeps it. */
function spawnHolder(path: string): Deno.ChildProcess {
  const module = new URL("lock.ts", import.meta.url);
  const script = `import { FileLock } from "${module}";
    const lock = await FileLock.acquire("${path}", 0o600);
    console.log("locked");
    Deno.stdin.readSync(new Uint8Array(1));
    lock[Symbol.dispose]();`;
  return new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-config", script],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
}

/** Reads the first line that a process prints. */
async function readLine({ stdout }: Deno.ChildProcess): Promise<string> {
  const reader = stdout.getReader();
  const { value } = await reader.read();
  reader.releaseLock();
  return new TextDecoder().decode(value);
}

const flock = ignoreUnless(hasCommand("flock"), "needs flock");

Deno.test({
  name:
    `FileLock keeps other programs out until it is disposed of${flock.suffix}`,
  ignore: flock.ignore,
  fn: () =>
    withPath(async (path) => {
      const lock = await FileLock.acquire(path, 0o600);
      assertEquals(isFree(path), false);
      lock[Symbol.dispose]();
      assertEquals(isFree(path), true);
      lock[Symbol.dispose]();
    }),
});

Deno.test({
  name:
    `await FileLock.acquire() waits, and a process that dies lets go${flock.suffix}`,
  ignore: flock.ignore,
  fn: () =>
    withPath(async (path) => {
      const lock = await FileLock.acquire(path, 0o600);
      const holder = spawnHolder(path);
      await eventually("it waits", () => hasOpen(holder.pid, path));
      lock[Symbol.dispose]();
      assertEquals(await readLine(holder), "locked\n");
      assertEquals(isFree(path), false);
      holder.kill("SIGKILL");
      await Promise.all([
        holder.status,
        holder.stdin.close(),
        holder.stdout.cancel(),
      ]);
      assertEquals(isFree(path), true);
    }),
});

Deno.test("FileLock.acquire() creates the file with the mode, or takes it as it is", () =>
  withPath(async (path) => {
    const modeOf = (): number => (Deno.statSync(path).mode ?? 0) & 0o777;
    (await FileLock.acquire(path, 0o600))[Symbol.dispose]();
    assertEquals(modeOf(), 0o600);
    await Deno.writeTextFile(path, "kept");
    (await FileLock.acquire(path, 0o640))[Symbol.dispose]();
    assertEquals([modeOf(), await Deno.readTextFile(path)], [0o600, "kept"]);
  }));

Deno.test("FileLock.acquire() throws if the directory does not exist", () =>
  withPath(async (path) => {
    await assertRejects(
      () => FileLock.acquire(`${path}/none`, 0o600),
      Deno.errors.NotFound,
    );
  }));

Deno.test({
  name:
    `await FileLock.acquireExisting() keeps other programs out${flock.suffix}`,
  ignore: flock.ignore,
  fn: () =>
    withPath(async (path) => {
      await Deno.writeTextFile(path, "kept", { mode: 0o400 });
      {
        using _lock = await FileLock.acquireExisting(path);
        assertEquals(isFree(path), false);
      }
      assertEquals(isFree(path), true);
      assertEquals(await Deno.readTextFile(path), "kept");
    }),
});

Deno.test("FileLock waits for others, but not for ever, and names them", () =>
  withPath(async (path) => {
    const lock = await FileLock.acquire(path, 0o600);
    const lines: string[] = [];
    const log = createLog({}, (line) => lines.push(line));
    const holder = `process ${Deno.pid} \\(.+\\)`;
    const rows: [what: string, wait: () => Promise<FileLock>][] = [
      [
        `"${path}"`,
        () => FileLock.acquire(path, 0o600, { limitMs: 30, noticeMs: 10, log }),
      ],
      ["the door", () =>
        FileLock.acquireExisting(path, {
          what: "the door",
          limitMs: 30,
          noticeMs: 0,
          log,
        })],
      [
        "the door",
        () =>
          FileLock.acquireExisting(path, { what: "the door", limitMs: 0, log }),
      ],
    ];
    for (const [what, wait] of rows) {
      const error = await assertRejects(wait, CniError);
      assertEquals(error.code, ErrorCode.TryAgainLater);
      assertEquals(error.message, `Cannot lock ${what}`);
      const named = what === "the door" ? `"${path}"` : "it";
      assertMatch(
        error.details,
        new RegExp(`^after (30|0) ms ${named} is still held by ${holder}$`),
      );
    }
    // One line for each wait, and none for the one that took no time.
    assertEquals(lines.length, 2);
    for (const line of lines) {
      assertMatch(line, /^level=warn msg="Waiting for the lock on /);
      assertMatch(line, new RegExp(`holder="${holder}"\n$`));
    }
    lock[Symbol.dispose]();
    // Those who gave up were first in the queue.
    (await FileLock.acquire(path, 0o600))[Symbol.dispose]();
    const next = spawnHolder(path);
    assertEquals(await readLine(next), "locked\n");
    const { details } = await assertRejects(
      () => FileLock.acquireExisting(path, { limitMs: 0 }),
      CniError,
    );
    assertStringIncludes(details, `process ${next.pid} (deno)`);
    assertEquals(FileLock.tryAcquire(path, { create: false }), undefined);
    // It lets go when it has read something.
    const writer = next.stdin.getWriter();
    await writer.write(new Uint8Array(1));
    using _lock = await FileLock.acquireExisting(path);
    await Promise.all([next.status, next.stdout.cancel(), writer.close()]);
  }));

Deno.test("FileLock waits without a limit, and starts no timer meanwhile", () =>
  withPath(async (path) => {
    const lock = await FileLock.acquire(path, 0o600);
    const { promise: isLogged, resolve } = Promise.withResolvers<void>();
    const log = createLog({}, () => resolve());
    const wait = { limitMs: Infinity, noticeMs: 10, log };
    const waiting = FileLock.acquire(path, 0o600, wait);
    await isLogged;
    assertEquals(await countTimeouts(300), 0);
    lock[Symbol.dispose]();
    (await waiting)[Symbol.dispose]();
  }));

Deno.test("FileLock names a holder that is stopped, and takes nothing from it", async () => {
  await withPath(async (path) => {
    const holder = spawnHolder(path);
    assertEquals(await readLine(holder), "locked\n");
    holder.kill("SIGSTOP");
    await eventually(
      "it is stopped",
      () => /\) T /.test(Deno.readTextFileSync(`/proc/${holder.pid}/stat`)),
    );
    const { code, message, details } = await assertRejects(
      () => FileLock.acquire(path, 0o600, { what: "the door", limitMs: 300 }),
      CniError,
    );
    assertEquals([code, message, details], [
      11,
      "Cannot lock the door",
      `after 300 ms "${path}" is still held by process ${holder.pid} (deno), ` +
      "which is stopped",
    ]);
    holder.kill("SIGCONT");
    assertEquals(FileLock.tryAcquire(path), undefined);
    await Promise.all([
      holder.stdin.close(),
      holder.status,
      holder.stdout.cancel(),
    ]);
    (await FileLock.acquire(path, 0o600))[Symbol.dispose]();
  });
});

Deno.test("FileLock.tryAcquire() creates no file if that is not wanted", () =>
  withPath(async (path) => {
    const wanted = { create: false };
    assertThrows(
      () => FileLock.tryAcquire(path, wanted),
      Deno.errors.NotFound,
    );
    await Deno.writeTextFile(path, "", { mode: 0o400 });
    using lock = FileLock.tryAcquire(path, wanted);
    assert(lock !== undefined);
    assertEquals(FileLock.tryAcquire(path, wanted), undefined);
  }));

Deno.test("FileLock.acquireExisting() creates nothing", () =>
  withPath(async (path) => {
    await assertRejects(
      () => FileLock.acquireExisting(path),
      Deno.errors.NotFound,
    );
    assertThrows(() => Deno.statSync(path), Deno.errors.NotFound);
  }));

const EXCLUSIVE = { shared: false }, SHARED = { shared: true };

function exists(path: string): boolean {
  const names = [...Deno.readDirSync(dirname(path))];
  return names.some(({ name }) => path.endsWith(`/${name}`));
}

testRows(
  "FileLock.tryAcquire() takes shared and exclusive locks",
  [
    [SHARED, SHARED, true],
    [SHARED, EXCLUSIVE, false],
    [EXCLUSIVE, SHARED, false],
    [EXCLUSIVE, EXCLUSIVE, false],
  ],
  ([held, wanted, open]: [typeof SHARED, typeof SHARED, boolean]) =>
    withPath((path) => {
      const holder = FileLock.tryAcquire(path, held);
      const other = FileLock.tryAcquire(path, wanted);
      assertEquals(other !== undefined, open);
      other?.[Symbol.dispose]();
      holder?.[Symbol.dispose]();
      using last = FileLock.tryAcquire(path, wanted);
      assert(last);
    }),
  ([held, wanted]) => JSON.stringify([held, wanted]),
);

Deno.test("FileLock.remove() unlocks a removed file that others have open", () =>
  withPath((path) => {
    const first = FileLock.tryAcquire(path);
    first?.remove();
    assertEquals(exists(path), false);
    using second = FileLock.tryAcquire(path);
    assert(second);
    assertEquals(exists(path), true);
  }));

Deno.test("FileLock.remove() unlocks a file that cannot be removed", () =>
  withPath((path) => {
    const first = FileLock.tryAcquire(path);
    Deno.removeSync(path);
    first?.remove();
    using second = FileLock.tryAcquire(path);
    assert(second);
  }));

Deno.test("FileLock.write() replaces the content", () =>
  withPath((path) => {
    using lock = FileLock.tryAcquire(path);
    lock?.write(new TextEncoder().encode("longer"));
    lock?.write(new TextEncoder().encode("short"));
    assertEquals(Deno.readTextFileSync(path), "short");
  }));

Deno.test("FileLock.tryAcquire() throws if the directory does not exist", () =>
  withPath((path) => {
    assertThrows(
      () => FileLock.tryAcquire(`${path}/none`),
      Deno.errors.NotFound,
    );
  }));

Deno.test("readIfLocked() reads an exclusively locked file", () =>
  withPath((path) => {
    assertEquals(readIfLocked(path), "");
    const lock = FileLock.tryAcquire(path);
    lock?.write(new TextEncoder().encode("me"));
    assertEquals(readIfLocked(path), "me");
    lock?.[Symbol.dispose]();
    assertEquals(readIfLocked(path), "");
    using _shared = FileLock.tryAcquire(path, SHARED);
    assertEquals(readIfLocked(path), "");
  }));

/** Counts in a file, between locking and removing another one, without a rest. */
const COUNT = `
  for (let left = 1500; left > 0;) {
    const lock = FileLock.tryAcquire(path);
    if (lock === undefined) continue;
    const count = Number(Deno.readTextFileSync(path + ".count"));
    Deno.writeTextFileSync(path + ".count", String(count + 1));
    lock.remove();
    left--;
  }`;

Deno.test("FileLock.tryAcquire() does not lock a file that was removed meanwhile", () =>
  withPath(async (path) => {
    await Deno.writeTextFile(`${path}.count`, "0");
    const module = new URL("lock.ts", import.meta.url);
    const script = `import { FileLock } from "${module}";
      const path = "${path}"; ${COUNT}`;
    const processes = [1, 2, 3].map(() =>
      new Deno.Command(Deno.execPath(), {
        args: ["eval", "--no-config", script],
      }).output()
    );
    for (const { success } of await Promise.all(processes)) assert(success);
    assertEquals(await Deno.readTextFile(`${path}.count`), String(3 * 1500));
  }));

/** Runs `test` with the path of a directory that does not exist yet. */
async function withMissingDirectory(
  test: (directory: string) => Promise<void>,
): Promise<void> {
  const parent = await Deno.makeTempDir();
  try {
    await test(`${parent}/run/locks`);
  } finally {
    await Deno.remove(parent, { recursive: true });
  }
}

const modeOf = (path: string): number =>
  (Deno.statSync(path).mode ?? 0) & 0o777;
const listNames = (directory: string): string[] =>
  [...Deno.readDirSync(directory)].map(({ name }) => name);

Deno.test("lockPrivately() locks a file that only its owner can open", () =>
  withMissingDirectory(async (directory) => {
    {
      using _lock = await lockPrivately("one", {}, directory);
      assertEquals(
        [modeOf(directory), modeOf(`${directory}/one`)],
        [0o700, 0o600],
      );
      await assertRejects(
        () => lockPrivately("one", { what: "the door", limitMs: 0 }, directory),
        Error,
        "Cannot lock the door",
      );
      using _other = await lockPrivately("other", { limitMs: 0 }, directory);
    }
    assertEquals(listNames(directory), []);
  }));

Deno.test("lockPrivately() lets one in at a time, although each removes the file", () =>
  withMissingDirectory(async (directory) => {
    let inside = 0, turns = 0;
    await Promise.all(Array.from({ length: 20 }, async () => {
      using _lock = await lockPrivately("one", {}, directory);
      assertEquals(++inside, 1);
      await Deno.stat(directory);
      inside--;
      turns++;
    }));
    assertEquals([turns, listNames(directory)], [20, []]);
  }));

Deno.test("lockPrivately() goes on where the lock cannot be created", (t) =>
  withMissingDirectory(async (unused) => {
    const parent = unused.replace("/run/locks", "");
    await Deno.writeTextFile(`${parent}/file`, "");
    await Deno.symlink("loop", `${parent}/loop`);
    const rows: [why: string, directory: string, level: string][] = [
      ["it may not be", "/sys/kernel/locks", "debug"],
      ["a file is in the way", `${parent}/file/locks`, "warn"],
      ["a link leads to itself", `${parent}/loop/locks`, "warn"],
    ];
    await eachRow(t, rows, async ([, directory, level]) => {
      const lines: string[] = [];
      const env = { CNI_LOG_LEVEL: "debug" };
      const log = createLog({}, (line) => lines.push(line), env);
      using _lock = await lockPrivately("one", { log }, directory);
      assertEquals(lines.length, 1);
      assertStringIncludes(lines.join(), `level=${level}`);
    });
  }));
