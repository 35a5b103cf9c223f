import { assert, assertEquals, assertThrows } from "@std/assert";
import { hasCommand, ignoreUnless } from "../tests/_harness/capabilities.ts";
import { SyscallError } from "./errno.ts";
import { FileLock } from "./file_lock.ts";

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

/** Says whether a process waits for a lock. */
async function isWaiting(pid: number): Promise<boolean> {
  const locks = await Deno.readTextFile("/proc/locks");
  return new RegExp(`-> FLOCK +ADVISORY +WRITE ${pid} `).test(locks);
}

/** Starts a process that prints a line once it has the lock, and then keeps it. */
function spawnHolder(path: string): Deno.ChildProcess {
  const module = new URL("file_lock.ts", import.meta.url);
  const script = `import { FileLock } from "${module}";
    const lock = FileLock.acquire("${path}", 0o600);
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

/** Waits for a condition. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  while (!await condition()) signal.throwIfAborted();
}

const flock = ignoreUnless(hasCommand("flock"), "needs flock");

Deno.test({
  name:
    `FileLock keeps other programs out until it is disposed of${flock.suffix}`,
  ignore: flock.ignore,
  fn: () =>
    withPath((path) => {
      const lock = FileLock.acquire(path, 0o600);
      assertEquals(isFree(path), false);
      lock[Symbol.dispose]();
      assertEquals(isFree(path), true);
      lock[Symbol.dispose]();
    }),
});

Deno.test({
  name:
    `FileLock.acquire() waits, and a process that dies lets go${flock.suffix}`,
  ignore: flock.ignore,
  fn: () =>
    withPath(async (path) => {
      const lock = FileLock.acquire(path, 0o600);
      const holder = spawnHolder(path);
      await until(() => isWaiting(holder.pid));
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
  withPath((path) => {
    const modeOf = (): number => (Deno.statSync(path).mode ?? 0) & 0o777;
    FileLock.acquire(path, 0o600)[Symbol.dispose]();
    assertEquals(modeOf(), 0o600);
    Deno.writeTextFileSync(path, "kept");
    FileLock.acquire(path, 0o640)[Symbol.dispose]();
    assertEquals([modeOf(), Deno.readTextFileSync(path)], [0o600, "kept"]);
  }));

Deno.test("FileLock.acquire() throws if there is no folder", () =>
  withPath((path) => {
    assertThrows(
      () => FileLock.acquire(`${path}/none`, 0o600),
      Deno.errors.NotFound,
    );
  }));

Deno.test({
  name: `FileLock.acquireExisting() keeps other programs out${flock.suffix}`,
  ignore: flock.ignore,
  fn: () =>
    withPath((path) => {
      Deno.writeTextFileSync(path, "kept", { mode: 0o400 });
      {
        using _lock = FileLock.acquireExisting(path, 0);
        assertEquals(isFree(path), false);
      }
      assertEquals(isFree(path), true);
      assertEquals(Deno.readTextFileSync(path), "kept");
    }),
});

Deno.test("FileLock.acquireExisting() waits for others, but not for ever", () =>
  withPath(async (path) => {
    const lock = FileLock.acquire(path, 0o600);
    const before = performance.now();
    const error = assertThrows(
      () => FileLock.acquireExisting(path, 30),
      SyscallError,
    );
    assertEquals(error.message, "flock: EAGAIN: after 30 ms");
    assert(performance.now() - before >= 30);
    lock[Symbol.dispose]();
    const holder = spawnHolder(path);
    assertEquals(await readLine(holder), "locked\n");
    // It lets go when it has read something.
    const writer = holder.stdin.getWriter();
    await writer.write(new Uint8Array(1));
    using _lock = FileLock.acquireExisting(path, 10_000);
    await Promise.all([holder.status, holder.stdout.cancel(), writer.close()]);
  }));

Deno.test("FileLock.acquireExisting() waits as long as it takes, if not told otherwise", () =>
  withPath(async (path) => {
    await Deno.writeTextFile(path, "");
    const holder = spawnHolder(path);
    assertEquals(await readLine(holder), "locked\n");
    // This thread can do nothing meanwhile: another process sees it wait.
    const script = `until grep -Eqe "-> FLOCK +ADVISORY +WRITE ${Deno.pid} " \
      /proc/locks; do :; done; kill -9 ${holder.pid}`;
    const killer = new Deno.Command("timeout", {
      args: ["10", "sh", "-c", script],
    }).spawn();
    using _lock = FileLock.acquireExisting(path);
    assertEquals((await killer.status).code, 0);
    await Promise.all([
      holder.status,
      holder.stdin.close(),
      holder.stdout.cancel(),
    ]);
  }));

Deno.test("FileLock.acquireExisting() creates nothing", () =>
  withPath((path) => {
    assertThrows(
      () => FileLock.acquireExisting(path, 0),
      Deno.errors.NotFound,
    );
    assertThrows(() => Deno.statSync(path), Deno.errors.NotFound);
  }));
