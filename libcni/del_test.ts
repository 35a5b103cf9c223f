import {
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { describeError, toCniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { parseNetworkConf } from "./conf.ts";
import { PluginFailure } from "./operation.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const FAIL = 'echo \'{"code":11,"msg":"later"}\'; exit 1';

testRows("delNetworkList() stops at the first failure unless told to go on", [
  ["stops", false, ["c DEL", "b DEL"]],
  ["goes on", true, ["c DEL", "b DEL", "a DEL"]],
], async ([, continueOnDelErrors, story]: [string, boolean, string[]]) => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b", { DEL: FAIL });
  host.add("c");
  const list = host.list(["a", "b", "c"]);
  const runtime = host.runtime();
  await runtime.addNetworkList(list, host.conf());
  const error = await assertRejects(
    () => runtime.delNetworkList(list, host.conf(), { continueOnDelErrors }),
    PluginFailure,
  );
  assertEquals(describeError(error), 'plugin type="b" failed (delete): later');
  assertEquals(host.story.slice(3), story);
  // It is there for another try.
  assertEquals(host.cached, ["net1-c1-eth0"]);
  host.add("b");
  await runtime.delNetworkList(list, host.conf());
  assertEquals(host.cached, []);
});

Deno.test("delNetworkList() skips missing plugins and reports all failures with the option to continue", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("c", { DEL: FAIL });
  const error = await assertRejects(
    () =>
      host.runtime().delNetworkList(host.list(["a", "b", "c"]), host.conf(), {
        continueOnDelErrors: true,
      }),
    AggregateError,
  );
  assertEquals(host.story, ["c DEL", "a DEL"]);
  const text = describeError(error);
  assertStringIncludes(text, 'plugin type="c" failed (delete): later');
  assertStringIncludes(text, 'failed to find plugin "b" in path');
  assertEquals(toCniError(error).code, 11);
});

Deno.test("delNetworkList() skips plugins that ADD cannot have run, unless ADD succeeded", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const runtime = host.runtime();
  const changed = host.list(["a", "a/b"]);
  await runtime.delNetworkList(changed, host.conf());
  assertEquals(host.story, ["a DEL"]);
  await runtime.addNetworkList(host.list(["a", "a"]), host.conf());
  await assertRejects(
    () => runtime.delNetworkList(changed, host.conf()),
    PluginFailure,
    'plugin type="a/b" failed (delete)',
  );
  assertEquals(host.cached, ["net1-c1-eth0"]);
});

Deno.test("delNetworkList() uses the cached configuration and arguments on request", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b");
  const runtime = host.runtime();
  const added = host.list([{
    type: "a",
    capabilities: { portMappings: true },
    mtu: 1,
  }, "b"], { cniVersion: "1.0.0" });
  const capabilityArgs = { portMappings: [{ hostPort: 80 }] };
  const conf = host.conf({ args: [["A", "1"]], capabilityArgs });
  await runtime.addNetworkList(added, conf);

  const changed = host.list([{ type: "a", mtu: 2 }]);
  const gone = host.conf({ netns: "" });
  await runtime.delNetworkList(changed, gone, { useCachedConfig: true });
  assertEquals(host.story.slice(2), ["b DEL", "a DEL"]);
  const del = host.calls[3];
  assertEquals([del?.args, del?.netns], ["A=1", ""]);
  assertEquals(del?.stdin, {
    capabilities: { portMappings: true },
    cniVersion: "1.0.0",
    mtu: 1,
    name: "net1",
    prevResult: { cniVersion: "1.0.0" },
    runtimeConfig: capabilityArgs,
    type: "a",
  });
  assertEquals(host.cached, []);
});

Deno.test("delNetworkList() omits the host's namespace if it uses the cache", async (t) => {
  const netns = `/proc/${Deno.pid}/ns/net`;
  const rows: [name: string, useCachedConfig: boolean, expected: string][] = [
    ["the cached attachment", true, ""],
    ["the caller's", false, netns],
  ];
  await eachRow(t, rows, async ([, useCachedConfig, expected]) => {
    using host = new RecordingPlugins();
    host.add("a");
    const list = host.list(["a"]);
    const runtime = host.runtime({ hostNetns: "/proc/self/ns/net" });
    const conf = host.conf({ netns });
    await runtime.addNetworkList(list, conf);
    await runtime.delNetworkList(list, conf, { useCachedConfig });
    assertEquals(host.calls.map((call) => call.netns), [netns, expected]);
    assertEquals(host.cached, []);
  });
});

testRows("delNetworkList() uses its own arguments if the cache has none", [
  ["no file", "", false],
  ["junk", "{", true],
  ["a bare result", '{"cniVersion":"1.1.0"}', true],
  [
    "a malformed configuration",
    JSON.stringify({
      kind: "cniCacheV1",
      containerId: "c1",
      config: btoa("[]"),
      ifName: "eth0",
      networkName: "net1",
    }),
    true,
  ],
], async ([, content, isTold]: [string, string, boolean]) => {
  using host = new RecordingPlugins();
  host.add("a");
  const results = `${host.cacheDir}/results`;
  await Deno.mkdir(results, { recursive: true });
  if (content) await Deno.writeTextFile(`${results}/net1-c1-eth0`, content);
  const list = host.list([{ type: "a", mtu: 2 }]);
  await host.runtime().delNetworkList(list, host.conf(), {
    useCachedConfig: true,
  });
  assertEquals(host.story, ["a DEL"]);
  assertEquals(host.calls[0]?.stdin.mtu, 2);
  const text = "Deleting without the cached configuration";
  assertEquals(host.logged.includes(text), isTold);
  assertEquals(host.cached, []);
});

Deno.test("delNetwork() finds the configuration of a bare plugin in the cache", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const parse = (text: string): ReturnType<typeof parseNetworkConf> =>
    parseNetworkConf(new TextEncoder().encode(text));
  const added = parse(
    '{"name":"net1","cniVersion":"1.0.0","type":"a","mtu":1}',
  );
  const changed = parse(
    '{"name":"net1","cniVersion":"1.0.0","type":"a","mtu":2}',
  );
  const runtime = host.runtime();
  await runtime.addNetwork(added, host.conf());
  await runtime.delNetwork(changed, host.conf(), { useCachedConfig: true });
  assertEquals(host.calls.map(({ stdin }) => stdin.mtu), [1, 1]);
});

Deno.test("delNetworkList() keeps an unusable cached result until it has succeeded", async () => {
  using host = new RecordingPlugins();
  host.add("a", { DEL: FAIL });
  const list = host.list(["a"]);
  const runtime = host.runtime();
  await runtime.addNetworkList(list, host.conf());
  await Deno.writeTextFile(`${host.cacheDir}/results/net1-c1-eth0`, "{");
  await assertRejects(() => runtime.delNetworkList(list, host.conf()));
  assertEquals(host.calls[1]?.stdin.prevResult, undefined);
  assertStringIncludes(host.logged, "Deleting without the cached result");
  assertEquals(host.cached, ["net1-c1-eth0"]);
  host.add("a");
  await runtime.delNetworkList(list, host.conf());
  assertEquals(host.cached, []);
});

Deno.test("delNetworkList() refuses a malformed version before it runs a plugin", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const list = host.list(["a"], { cniVersion: "broken" });
  const error = await assertRejects(() =>
    host.runtime().delNetworkList(list, host.conf())
  );
  assertEquals(toCniError(error).code, 6);
  assertEquals(host.story, []);
});

Deno.test("delNetworkList() succeeds even if the cache file cannot be removed", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const path = `${host.cacheDir}/results/net1-c1-eth0`;
  await Deno.mkdir(`${path}/full`, { recursive: true });
  await host.runtime().delNetworkList(host.list(["a"]), host.conf());
  assertEquals(host.story, ["a DEL"]);
  assertStringIncludes(host.logged, "Cannot remove an attachment");
});

Deno.test("delNetwork() throws the plugin's own error", async () => {
  using host = new RecordingPlugins();
  host.add("a", { DEL: FAIL });
  const text = '{"name":"net1","cniVersion":"1.0.0","type":"a"}';
  const conf = parseNetworkConf(new TextEncoder().encode(text));
  const error = await assertRejects(() =>
    host.runtime().delNetwork(conf, host.conf())
  );
  assertInstanceOf(error, Error);
  assertEquals(describeError(error), "later");
});
