import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { describeError, toCniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";

const FAIL = 'echo \'{"code":11,"msg":"later"}\'; exit 1';

Deno.test("gcNetworkList() runs DEL with the cached configuration and arguments", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list([{ type: "a", capabilities: { ips: true } }]);
  const runtime = host.runtime();
  await runtime.addNetworkList(
    list,
    host.conf({ args: [["A", "1"]], capabilityArgs: { ips: ["::1"] } }),
  );
  await runtime.gcNetworkList(list, { validAttachments: [] });
  const { stdin, ...del } = host.calls[1] ?? {};
  assertEquals(del, {
    type: "a",
    command: "DEL",
    containerId: "c1",
    netns: "/run/netns/c1",
    ifName: "eth0",
    args: "A=1",
    path: host.directory.path,
  });
  assertEquals(stdin.runtimeConfig, { ips: ["::1"] });
  assertEquals(stdin.prevResult, { cniVersion: "1.1.0" });
  assertEquals(host.cached, []);
});

Deno.test("gcNetworkList() never passes the host's namespace to a plugin", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list(["a"]);
  const netns = `/proc/${Deno.pid}/ns/net`;
  const runtime = host.runtime({ hostNetns: "/proc/self/ns/net" });
  await runtime.addNetworkList(list, host.conf({ netns }));
  await runtime.gcNetworkList(list, { validAttachments: [] });
  assertEquals(host.story, ["a ADD", "a DEL", "a GC"]);
  assertEquals(host.calls.map((call) => call.netns), [netns, "", ""]);
  assertStringIncludes(host.logged, netns);
  assertEquals(host.cached, []);
});

Deno.test("gcNetworkList() reports an unreadable cache and still runs the plugins", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  await Deno.mkdir(host.cacheDir);
  await Deno.writeTextFile(`${host.cacheDir}/results`, "");
  const error = await assertRejects(() =>
    host.runtime().gcNetworkList(host.list(["a"]), { validAttachments: [] })
  );
  assertStringIncludes(
    describeError(error),
    'failed to list cached attachments of network "net1": Cannot read',
  );
  assertEquals(toCniError(error).code, 5);
  assertEquals(host.story, ["a GC"]);
});

Deno.test("gcNetworkList() collects failures in order", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b");
  const list = host.list(["a", "b"]);
  const runtime = host.runtime();
  for (const containerId of ["c1", "c2"]) {
    await runtime.addNetworkList(list, host.conf({ containerId }));
  }
  host.add("b", { DEL: FAIL, GC: FAIL });
  const error = await assertRejects(
    () => runtime.gcNetworkList(list),
    AggregateError,
  );
  assertEquals(host.story.slice(4), ["b DEL", "b DEL", "a GC", "b GC"]);
  assertEquals(error.errors.map(describeError), [
    'failed to delete stale attachment c1 eth0: plugin type="b" failed (delete): later',
    'failed to delete stale attachment c2 eth0: plugin type="b" failed (delete): later',
    "failed to GC plugin b: later",
  ]);
});

Deno.test("gcNetworkList() deletes only stale attachments", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b");
  const runtime = host.runtime();
  await runtime.addNetworkList(
    host.list([{ type: "a", mtu: 1 }, "b"]),
    host.conf(),
  );
  host.add("b", { DEL: FAIL });
  const changed = host.list([{ type: "a", mtu: 2 }]);
  await assertRejects(() =>
    runtime.gcNetworkList(changed, {
      useCachedConfig: true,
      continueOnDelErrors: true,
    })
  );
  assertEquals(host.story.slice(2), ["b DEL", "a DEL", "a GC"]);
  assertEquals(host.calls[3]?.stdin.mtu, 1);
});

Deno.test("gcNetworkList() names unreadable files of the cache", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list(["a"]);
  await host.runtime().addNetworkList(list, host.conf());
  const path = `${host.cacheDir}/results/net1-c1-eth0`;
  await Deno.truncate(path, 20);
  const others = host.list(["a"], { name: "net2" });
  await host.runtime().gcNetworkList(others, { validAttachments: [] });
  assertEquals(host.logged, "");
  await host.runtime().gcNetworkList(list, { validAttachments: [] });
  assertStringIncludes(
    host.logged,
    `Leaving a file of the cache that cannot be read" path=${path}`,
  );
  assertEquals(host.story, ["a ADD", "a GC", "a GC"]);
  assertEquals(host.cached, ["net1-c1-eth0"]);
});

Deno.test("gcNetworkList() uses the caller's list of cache files", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list(["a"]);
  await host.runtime().addNetworkList(list, host.conf());
  const path = `${host.cacheDir}/results/net1-c2-eth0`;
  const listing = { attachments: [], unreadable: [path] };
  await host.runtime().gcNetworkList(list, { validAttachments: [], listing });
  assertEquals(host.story, ["a ADD", "a GC"]);
  assertStringIncludes(host.logged, path);
});
