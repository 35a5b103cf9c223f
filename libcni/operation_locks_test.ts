import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { toCniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import type { NetworkRuntime } from "./api.ts";
import { AttachmentLocks, lockDirectoryOf } from "./lock.ts";

/** Long enough for any answer, far too short for a wait that never ends. */
const SHORT_MS = 300;

function runtimeOf(
  host: RecordingPlugins,
  locks: AttachmentLocks,
): NetworkRuntime {
  return host.runtime({ locks });
}

function locksOf(host: RecordingPlugins): AttachmentLocks {
  return new AttachmentLocks(lockDirectoryOf(host.cacheDir));
}

Deno.test("NetworkRuntime holds the container's lock during ADD, CHECK and DEL", async (t) => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list(["a"]);
  const runtime = runtimeOf(host, locksOf(host));
  const rows: [string, (signal?: AbortSignal) => Promise<unknown>][] = [
    [
      "ADD",
      (signal) =>
        runtime.addNetworkList(list, host.conf(), signal && { signal }),
    ],
    [
      "CHECK",
      (signal) =>
        runtime.checkNetworkList(list, host.conf(), signal && { signal }),
    ],
    [
      "DEL",
      (signal) =>
        runtime.delNetworkList(list, host.conf(), signal && { signal }),
    ],
    [
      "ADD or undo",
      (signal) =>
        runtime.addNetworkListOrUndo(list, host.conf(), signal && { signal }),
    ],
    ["GC", (signal) => runtime.gcNetworkList(list, signal && { signal })],
  ];
  for (const [name, run] of rows) {
    await t.step(`${name} waits`, async () => {
      const before = host.calls.length;
      using _held = await locksOf(host).lockContainer("c1");
      const error = await assertRejects(() =>
        run(AbortSignal.timeout(SHORT_MS))
      );
      assertEquals(toCniError(error).code, 11);
      assertEquals(host.calls.length, before);
    });
    await t.step(`${name} gives the lock back`, async () => {
      await run();
      using _free = await locksOf(host).lockExclusively({
        signal: AbortSignal.timeout(60_000),
      });
    });
  }
});

Deno.test("NetworkRuntime blocks neither other containers nor STATUS", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list(["a"]);
  const runtime = runtimeOf(host, locksOf(host));
  using _held = await locksOf(host).lockContainer("c1");
  const signal = AbortSignal.timeout(60_000);
  await runtime.addNetworkList(list, host.conf({ containerId: "c2" }), {
    signal,
  });
  await runtime.statusNetworkList(list, { signal });
  assertEquals(host.story, ["a ADD", "a STATUS"]);
});

Deno.test("NetworkRuntime runs the DELs of GC under GC's lock", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list(["a"]);
  const runtime = runtimeOf(host, locksOf(host));
  await runtime.addNetworkList(list, host.conf());
  await runtime.gcNetworkList(list, { signal: AbortSignal.timeout(60_000) });
  assertEquals(host.story, ["a ADD", "a DEL", "a GC"]);
});

Deno.test("NetworkRuntime cleans up under ADD's lock", async () => {
  using host = new RecordingPlugins();
  host.add("a", { ADD: "exit 1" });
  const runtime = runtimeOf(host, locksOf(host));
  await assertRejects(
    () => runtime.addNetworkListOrUndo(host.list(["a"]), host.conf()),
  );
  assertEquals(host.story, ["a ADD", "a DEL"]);
});

Deno.test("NetworkRuntime runs only DEL and CHECK if no lock can be created", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list(["a"]);
  const unusable = `${host.directory.path}/a/locks`;
  const runtime = runtimeOf(host, new AttachmentLocks(unusable));
  await runtime.delNetworkList(list, host.conf());
  await runtime.checkNetworkList(list, host.conf());
  assertStringIncludes(host.logged, "Going on without a lock");
  for (
    const run of [
      (): Promise<unknown> => runtime.addNetworkList(list, host.conf()),
      (): Promise<unknown> => runtime.gcNetworkList(list),
    ]
  ) assertEquals(toCniError(await assertRejects(run)).code, 5);
  assertEquals(host.story, ["a DEL", "a CHECK"]);
});

Deno.test("NetworkRuntime refuses an invalid container ID with and without locks alike", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const conf = host.conf({ containerId: "../c" });
  const messages: string[] = [];
  for (const runtime of [host.runtime(), runtimeOf(host, locksOf(host))]) {
    const error = await assertRejects(() =>
      runtime.addNetworkList(host.list(["a"]), conf)
    );
    messages.push(`${error}`);
  }
  assertEquals(messages[0], messages[1]);
  assertEquals(host.story, []);
});
