import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { CniError, ErrorCode } from "../error.ts";
import { FileLock, findHolders } from "./lock.ts";
import { ifPossible } from "./io.ts";
import { createLog } from "../log.ts";

/** Runs `test` with the path of a file that does not exist yet. */
async function withPath(test: (path: string) => unknown): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(`${folder}/lock`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Says whether flock(1) gets the lock at once. */
function isFree(path: string): boolean {
  return new Deno.Command("flock", { args: ["--nonblock", path, "true"] })
    .outputSync().success;
}

/** Says whether a process has a file open. */
function hasOpen(pid: number, path: string): boolean {
  const folder = `/proc/${pid}/fd`;
  return [...Deno.readDirSync(folder)].some(({ name }) =>
    ifPossible(() => Deno.readLinkSync(`${folder}/${name}`)) === path
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

/** Counts the waits of this process in the kernel for a lock on a file. */
function countWaits(path: string): number {
  const { ino } = Deno.statSync(path);
  const waits = Deno.readTextFileSync("/proc/locks").split("\n")
    .filter((line) => line.includes("->") && line.includes(`:${ino} `));
  return waits.filter((line) => line.includes(` ${Deno.pid} `)).length;
}

Deno.test("FileLock: many who wait in one process take turns, with one thread", () =>
  withPath(async (path) => {
    const first = await FileLock.acquire(path, 0o600);
    const order: number[] = [];
    const waiting = Array.from({ length: 20 }, async (_, index) => {
      using _lock = await FileLock.acquire(path, 0o600);
      order.push(index);
    });
    await eventually("one waits", () => countWaits(path) === 1);
    first[Symbol.dispose]();
    await Promise.all(waiting);
    assertEquals(order, Array.from({ length: 20 }, (_, index) => index));
    assertEquals(countWaits(path), 0);
  }));

Deno.test("FileLock: a signal ends a wait, and nobody keeps the lock", () =>
  withPath(async (path) => {
    const holder = await FileLock.acquire(path, 0o600);
    const controller = new AbortController();
    const ended = FileLock.acquire(path, 0o600, { signal: controller.signal });
    const other = FileLock.acquire(path, 0o600);
    await eventually("one waits", () => countWaits(path) === 1);
    controller.abort();
    const { code } = await assertRejects(() => ended, CniError);
    assertEquals(code, ErrorCode.TryAgainLater);
    holder[Symbol.dispose]();
    (await other)[Symbol.dispose]();
    // And if all have gone, too.
    const again = await FileLock.acquire(path, 0o600);
    await assertRejects(
      () => FileLock.acquire(path, 0o600, { limitMs: 1 }),
      CniError,
    );
    again[Symbol.dispose]();
    await eventually("it is free", () => {
      using lock = FileLock.tryExisting(path);
      return lock !== undefined;
    });
  }));

Deno.test("FileLock.acquire() creates the file with the mode, or takes it as it is", () =>
  withPath(async (path) => {
    const modeOf = (): number => (Deno.statSync(path).mode ?? 0) & 0o777;
    (await FileLock.acquire(path, 0o600))[Symbol.dispose]();
    assertEquals(modeOf(), 0o600);
    await Deno.writeTextFile(path, "kept");
    (await FileLock.acquire(path, 0o640))[Symbol.dispose]();
    assertEquals([modeOf(), await Deno.readTextFile(path)], [0o600, "kept"]);
  }));

Deno.test("FileLock.acquire() throws if the folder does not exist", () =>
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
          FileLock.acquireExisting(path, {
            what: "the door",
            limitMs: 0,
            log,
          }),
      ],
    ];
    for (const [what, wait] of rows) {
      const error = await assertRejects(wait, CniError);
      assertEquals(error.code, ErrorCode.TryAgainLater);
      assertEquals(error.message, `Cannot lock ${what}`);
      assertMatch(
        error.details,
        new RegExp(`^after (30|0) ms it is still held by ${holder}$`),
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
    assertEquals(FileLock.tryExisting(path), undefined);
    // It lets go when it has read something.
    const writer = next.stdin.getWriter();
    await writer.write(new Uint8Array(1));
    using _lock = await FileLock.acquireExisting(path);
    await Promise.all([next.status, next.stdout.cancel(), writer.close()]);
  }));

Deno.test("FileLock.tryExisting() locks what nobody has locked", () =>
  withPath(async (path) => {
    assertThrows(() => FileLock.tryExisting(path), Deno.errors.NotFound);
    await Deno.writeTextFile(path, "");
    {
      using lock = FileLock.tryExisting(path);
      assert(lock !== undefined);
      assertEquals(FileLock.tryExisting(path), undefined);
    }
    using lock = FileLock.tryExisting(path);
    assert(lock !== undefined);
  }));

Deno.test("findHolders() reads /proc/locks", async (t) => {
  const locks = `1: FLOCK  ADVISORY  WRITE 3912 fe:00:131090 0 EOF
1: -> FLOCK  ADVISORY  WRITE 3913 fe:00:131090 0 EOF
2: POSIX  ADVISORY  WRITE 5 fe:00:131090 0 EOF
3: FLOCK  ADVISORY  READ 11 00:1a:77 0 EOF
4: FLOCK  ADVISORY  READ 12 00:1a:77 0 EOF
5: FLOCK  ADVISORY  WRITE 0 103:00abc:9 0 EOF
6: FLOCK  ADVISORY  WRITE 14 00:1b:131090 0 EOF
`;
  const rows: [name: string, dev: number, ino: number, want: number[]][] = [
    ["one of several file systems", 0xfe00, 131090, [3912]],
    ["shared", 0x1a, 77, [11, 12]],
    // 259:2748: more digits than eight bits on both sides.
    ["of another PID namespace", 0xa103bc, 9, [0]],
    ["another device number than stat(2) has", 0x99, 77, [11, 12]],
    ["another file", 0xfe00, 1, []],
  ];
  for (const [name, dev, ino, want] of rows) {
    await t.step(
      name,
      () => assertEquals(findHolders(locks, { dev, ino }), want),
    );
  }
});

Deno.test("FileLock.acquireExisting() creates nothing", () =>
  withPath(async (path) => {
    await assertRejects(
      () => FileLock.acquireExisting(path),
      Deno.errors.NotFound,
    );
    assertThrows(() => Deno.statSync(path), Deno.errors.NotFound);
  }));
