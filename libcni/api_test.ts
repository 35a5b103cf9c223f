import {
  assertEquals,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import { CniError, describeError, toCniError } from "../base/error.ts";
import { deadlineWhen } from "../tests/_harness/eventually.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { parseNetworkConf } from "./conf.ts";
import { CheckNotSupportedError } from "./check.ts";
import { PluginFailure } from "./operation.ts";
import { testRows } from "../tests/_harness/table.ts";
import { createTools, type NetworkRuntime } from "./api.ts";
import { AttachmentLocks, lockDirectoryOf } from "./lock.ts";
import { execInvoker } from "../cni/invoke/exec_invoker.ts";

const FAIL = 'echo \'{"code":11,"msg":"later"}\'; exit 1';

function bare(keys: Readonly<Record<string, unknown>> = {}): ReturnType<
  typeof parseNetworkConf
> {
  const document = { name: "net1", cniVersion: "1.1.0", type: "a", ...keys };
  return parseNetworkConf(new TextEncoder().encode(JSON.stringify(document)));
}

testRows(
  "NetworkRuntime starts no plugin after the signal",
  ["addNetworkList", "checkNetworkList", "delNetworkList"] as const,
  async (operation) => {
    using host = new RecordingPlugins();
    const sleeping = "exec sleep 60";
    const slow = { ADD: sleeping, CHECK: sleeping, DEL: sleeping };
    host.add("a", slow);
    host.add("b", slow);
    const signal = deadlineWhen(() => host.story.length > 0);
    await assertRejects(() =>
      host.runtime()[operation](host.list(["a", "b"]), host.conf(), { signal })
    );
    assertEquals(host.story.length, 1);
  },
);

Deno.test("NetworkRuntime runs nothing if the signal is already aborted", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const signal = AbortSignal.abort();
  const error = await assertRejects(() =>
    host.runtime().addNetworkList(host.list(["a"]), host.conf(), { signal })
  );
  assertStringIncludes(describeError(error), "context canceled");
  assertEquals([host.story, host.cached], [[], []]);
});

Deno.test("NetworkRuntime throws a bare plugin's error unchanged", async () => {
  using host = new RecordingPlugins();
  host.add("a", { ADD: FAIL, CHECK: FAIL, DEL: FAIL });
  const runtime = host.runtime();
  for (
    const run of [
      (): Promise<unknown> => runtime.addNetwork(bare(), host.conf()),
      (): Promise<unknown> => runtime.checkNetwork(bare(), host.conf()),
      (): Promise<unknown> => runtime.delNetwork(bare(), host.conf()),
    ]
  ) {
    const error = await assertRejects(run, CniError, "later");
    assertEquals(error instanceof PluginFailure, false);
  }
  await assertRejects(
    () => runtime.checkNetwork(bare({ cniVersion: "0.3.1" }), host.conf()),
    CheckNotSupportedError,
  );
});

Deno.test("NetworkRuntime collects what plugins write to stderr", async () => {
  using host = new RecordingPlugins();
  host.add("a", { ADD: "echo one >&2; echo {}" });
  host.add("b", { ADD: "echo two >&2; echo {}" });
  await host.runtime().addNetworkList(host.list(["a", "b"]), host.conf());
  assertEquals(host.logged, "one\ntwo\n");
});

Deno.test("NetworkRuntime attaches different containers at the same time", async () => {
  using host = new RecordingPlugins();
  // Each waits for the other's call, so they end only if they overlap.
  const fifo = `${host.directory.path}/meeting`;
  await new Deno.Command("mkfifo", { args: [fifo] }).output();
  host.add("a", { ADD: `cat "${fifo}" > /dev/null; echo {}` });
  host.add("b", { ADD: `echo here > "${fifo}"; echo {}` });
  const runtime = host.runtime();
  const signal = AbortSignal.timeout(20_000);
  await Promise.all(["a", "b"].map((type, index) =>
    runtime.addNetworkList(
      host.list([type]),
      host.conf({ containerId: `c${index}` }),
      { signal },
    )
  ));
  assertEquals(host.cached, ["net1-c0-eth0", "net1-c1-eth0"]);
});

Deno.test("NetworkRuntime returns the versions of a plugin", async () => {
  using host = new RecordingPlugins();
  host.add("a", {
    VERSION:
      `echo '{"cniVersion":"1.1.0","supportedVersions":["2.0.0","1.0.0"]}'`,
  });
  const { supportedVersions } = await host.runtime().getVersionInfo("a");
  assertEquals(supportedVersions, ["2.0.0", "1.0.0"]);
  assertEquals(
    await host.runtime().validateNetwork(
      bare({ cniVersion: "1.0.0", capabilities: { mac: true, ips: false } }),
    ),
    ["mac"],
  );
});

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
  assertStringIncludes(host.logged, "Continuing without the lock");
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

Deno.test("createTools() runs plugins as processes from this thread's namespace by default", () => {
  const tools = createTools({ pluginDirs: [], env: {} });
  assertStrictEquals(tools.context.invoker, execInvoker);
  assertEquals(tools.context.hostNetns, "/proc/thread-self/ns/net");
  assertEquals(tools.locks, undefined);
});

Deno.test("createTools() logs to the same place as plugins", () => {
  let logged = "";
  const { log } = createTools({
    pluginDirs: [],
    env: {},
    onStderr: (text) => void (logged += text),
  });
  log.warn("Going on");
  assertEquals(logged, 'level=warn component=libcni msg="Going on"\n');
});

Deno.test("createTools() passes on whether the node's log has warnings", () => {
  const options = { pluginDirs: [], env: {} };
  const { context } = createTools({ ...options, keepsLog: true });
  assertEquals(context.keepsLog, true);
  assertEquals(createTools(options).context.keepsLog, undefined);
});
