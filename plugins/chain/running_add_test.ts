// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CniError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { createLog } from "../../base/log/log.ts";
import {
  type Running,
  RunningAdd,
  sweepLocks,
  waitForAdd,
} from "./running_add.ts";

/** An attachment, the directory with its locks, and its log. */
class Scene implements Disposable {
  readonly directory: string = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly logs: string[] = [];
  readonly running: Running = {
    network: "net1",
    args: { containerId: "c1", ifName: "eth0" } as Running["args"],
    log: createLog({}, (text) => this.logs.push(text)),
    signal: undefined,
    directory: `${this.directory}/locks`,
  };

  get locks(): string[] {
    const { directory = "" } = this.running;
    const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
    return entries.map(({ name }) => `${directory}/${name}`);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

Deno.test("RunningAdd locks until its disposal, and leaves nothing", async () => {
  using scene = new Scene();
  const { running } = scene;
  {
    using add = new RunningAdd(running);
    assertEquals(scene.locks, []);
    await add.begin();
    await add.begin();
    assertEquals(scene.locks.length, 1);
    const signal = AbortSignal.timeout(50);
    using other = new RunningAdd({ ...running, signal });
    const { code } = await assertRejects(
      () => other.begin(),
      CniError,
      "is still running",
    );
    assertEquals(code, 11);
    const args = { ...running.args, ifName: "eth1" };
    using another = new RunningAdd({ ...running, args });
    await another.begin();
  }
  assertEquals([scene.locks, scene.logs], [[], []]);
});

Deno.test("sweepLocks() removes the files that nobody holds", async () => {
  using scene = new Scene();
  const { running } = scene;
  const { directory = "" } = running;
  sweepLocks(directory);
  using add = new RunningAdd(running);
  await add.begin();
  const held = scene.locks;
  Deno.writeTextFileSync(`${directory}/dead`, "");
  sweepLocks(directory);
  assertEquals(scene.locks, held);
});

Deno.test("waitForAdd() waits for a process that outlives RunningAdd", async () => {
  using scene = new Scene();
  const { running } = scene;
  const add = new RunningAdd(running);
  const starter = await add.begin() ?? ((start) => start());
  const [path = ""] = scene.locks;
  // Another call's process, which must not matter.
  await using other = new Deno.Command("sleep", { args: ["100"] }).spawn();
  await using child = starter(() =>
    new Deno.Command("sleep", { args: ["0.5"] }).spawn()
  );
  // Keeps the file, as if this process had been killed.
  Deno.renameSync(path, `${path}.kept`);
  add[Symbol.dispose]();
  Deno.renameSync(`${path}.kept`, path);
  const startMs = performance.now();
  await waitForAdd(running);
  assert(performance.now() - startMs > 300, "it did not wait");
  await child.status;
  other.kill();
  assertEquals([scene.locks, scene.logs], [[], []]);
});

Deno.test("waitForAdd() gives up at the call's signal, and leaves the lock", async () => {
  using scene = new Scene();
  const { running } = scene;
  await waitForAdd(running);
  {
    using add = new RunningAdd(running);
    await add.begin();
    for (let count = 0; count < 2; count++) {
      const signal = AbortSignal.timeout(50);
      const { code } = await assertRejects(
        () => waitForAdd({ ...running, signal }),
        CniError,
        "is still running",
      );
      assertEquals([code, scene.locks.length], [11, 1]);
    }
  }
  assertEquals([scene.locks, scene.logs], [[], []]);
});

Deno.test("RunningAdd removes its own lock only", async () => {
  using scene = new Scene();
  const add = new RunningAdd(scene.running);
  await add.begin();
  const [path = ""] = scene.locks;
  Deno.removeSync(path);
  using other = new RunningAdd(scene.running);
  await other.begin();
  add[Symbol.dispose]();
  assertEquals(scene.locks, [path]);
});

Deno.test("RunningAdd goes on where it cannot lock", async () => {
  using scene = new Scene();
  const running = { ...scene.running, directory: "/proc/locks" };
  using add = new RunningAdd(running);
  await add.begin();
  assertEquals(scene.logs.length, 1);
  await waitForAdd(running);
});

Deno.test("ADD and DEL go on without a lock that cannot be opened", async () => {
  using scene = new Scene();
  const { running } = scene;
  let path = "";
  {
    using add = new RunningAdd(running);
    await add.begin();
    [path = ""] = scene.locks;
  }
  Deno.symlinkSync(path, path);
  using add = new RunningAdd(running);
  assertEquals(await add.begin(), undefined);
  await waitForAdd(running);
  assertEquals(scene.logs.length, 2);
  for (const log of scene.logs) {
    assertMatch(
      log,
      /^level=warn msg="Continuing without the lock" .*(?:ELOOP|symbolic links)/,
    );
    assertStringIncludes(log, `path=${path} `);
  }
});
