import {
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CniError, describeError, toCniError } from "../base/error.ts";
import { deadlineWhen } from "../tests/_harness/eventually.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { PluginFailure } from "./operation.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { addPlugins } from "./add.ts";
import { createTools } from "./api.ts";

const FAIL = 'echo \'{"code":11,"msg":"later"}\'; exit 1';

Deno.test("addNetworkList() converts a result of another version to the list's", async () => {
  using host = new RecordingPlugins();
  host.add("old", {
    ADD: 'echo \'{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24"}}\'',
  });
  host.add("next");
  const list = host.list(["old", "next"]);
  const { document } = await host.runtime().addNetworkList(list, host.conf());
  assertEquals(host.calls[1]?.stdin.prevResult, {
    cniVersion: "1.1.0",
    ips: [{ address: "10.0.0.2/24" }],
  });
  assertStringIncludes(host.logged, "from=0.2.0 to=1.1.0");
  assertEquals(document, { cniVersion: "1.1.0" });
});

Deno.test("addNetworkList() passes on unknown keys", async () => {
  using host = new RecordingPlugins();
  const result = '{"cniVersion":"1.0.0","x":{"y":"<&>"},"ips":[]}';
  host.add("a", { ADD: `echo '${result}'` });
  host.add("b");
  await host.runtime().addNetworkList(host.list(["a", "b"]), host.conf());
  assertEquals(host.calls[1]?.stdin.prevResult, JSON.parse(result));
});

Deno.test("addNetworkList() refuses a network without plugins", async () => {
  using host = new RecordingPlugins();
  const list = { ...host.list(["a"]), plugins: [] };
  const error = await assertRejects(
    () => host.runtime().addNetworkList(list, host.conf()),
    CniError,
    'Cannot attach to network "net1": it has no plugins',
  );
  assertEquals(error.code, 7);
});

Deno.test("addNetworkList() reports a missing plugin before a malformed name", async () => {
  using host = new RecordingPlugins();
  const conf = host.conf({ containerId: "%" });
  const error = await assertRejects(
    () => host.runtime().addNetworkList(host.list(["a"]), conf),
    PluginFailure,
  );
  assertStringIncludes(
    describeError(error),
    'failed to find plugin "a" in path',
  );
});

Deno.test("addNetworkListOrUndo() runs only ADD if it succeeds", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const { result } = await host.runtime()
    .addNetworkListOrUndo(host.list(["a"]), host.conf());
  assertEquals(result.ips, []);
  assertEquals(host.story, ["a ADD"]);
  assertEquals(host.cached, ["net1-c1-eth0"]);
});

Deno.test("addNetworkListOrUndo() runs DEL of all plugins after a failure", async (t) => {
  const rows: [name: string, failing: () => RecordingPlugins, string[]][] = [
    ["the last fails", (): RecordingPlugins => {
      const host = new RecordingPlugins();
      host.add("a");
      host.add("b", { ADD: FAIL });
      return host;
    }, ["a ADD", "b ADD", "b DEL", "a DEL"]],
    ["one is missing", (): RecordingPlugins => {
      const host = new RecordingPlugins();
      host.add("a");
      return host;
    }, ["a ADD", "a DEL"]],
    ["a DEL fails too", (): RecordingPlugins => {
      const host = new RecordingPlugins();
      host.add("a");
      host.add("b", { ADD: FAIL, DEL: FAIL });
      return host;
    }, ["a ADD", "b ADD", "b DEL", "a DEL"]],
    ["the cache cannot be written", (): RecordingPlugins => {
      const host = new RecordingPlugins();
      Deno.mkdirSync(host.cacheDir);
      Deno.writeTextFileSync(`${host.cacheDir}/results`, "");
      host.add("a");
      host.add("b");
      return host;
    }, ["a ADD", "b ADD", "b DEL", "a DEL"]],
  ];
  await eachRow(t, rows, async ([, prepare, story]) => {
    using host = prepare();
    await assertRejects(() =>
      host.runtime().addNetworkListOrUndo(host.list(["a", "b"]), host.conf())
    );
    assertEquals(host.story, story);
    assertEquals(host.cached.length, 0);
  });
});

Deno.test("addNetworkListOrUndo() throws the failure of ADD and logs the failure of DEL", async () => {
  using host = new RecordingPlugins();
  host.add("a", {
    ADD: FAIL,
    DEL: 'echo \'{"code":100,"msg":"cannot undo"}\'; exit 1',
  });
  const error = await assertRejects(() =>
    host.runtime().addNetworkListOrUndo(host.list(["a"]), host.conf())
  );
  assertInstanceOf(error, PluginFailure);
  assertEquals(toCniError(error).code, 11);
  assertStringIncludes(host.logged, "cannot undo");
});

Deno.test("addNetworkListOrUndo() gives DEL a deadline of its own", async () => {
  using host = new RecordingPlugins();
  host.add("a", { ADD: "exec sleep 60" });
  await assertRejects(() =>
    host.runtime().addNetworkListOrUndo(host.list(["a"]), host.conf(), {
      signal: deadlineWhen(() => host.story.length > 0),
    })
  );
  assertEquals(host.story, ["a ADD", "a DEL"]);

  host.add("b", { ADD: FAIL, DEL: "exec sleep 60" });
  const begin = performance.now();
  const error = await assertRejects(() =>
    host.runtime().addNetworkListOrUndo(host.list(["b"]), host.conf(), {
      undoTimeoutMs: 300,
    })
  );
  assertEquals(toCniError(error).code, 11);
  assertEquals(performance.now() - begin < 10_000, true);
  assertStringIncludes(host.logged, "netplugin failed with no error message");
});

Deno.test("addNetworkListOrUndo() refuses an existing attachment without changing it", async (t) => {
  const rows: [name: string, spoil: (path: string) => void][] = [
    ["it is cached", (): void => {}],
    ["its file is junk", (path): void => Deno.writeTextFileSync(path, "{")],
    [
      "its file is a bare result",
      (path): void => Deno.writeTextFileSync(path, '{"cniVersion":"0.4.0"}'),
    ],
  ];
  await eachRow(t, rows, async ([, spoil]) => {
    using host = new RecordingPlugins();
    host.add("a");
    const runtime = host.runtime();
    const list = host.list(["a"]);
    await runtime.addNetworkList(list, host.conf());
    spoil(`${host.cacheDir}/results/net1-c1-eth0`);
    host.add("a", { ADD: FAIL });
    const error = await assertRejects(
      () => runtime.addNetworkListOrUndo(list, host.conf()),
      CniError,
      "CNI_CONTAINERID and CNI_IFNAME belong to an existing attachment",
    );
    assertEquals(error.code, 4);
    assertEquals(host.story, ["a ADD"]);
    assertEquals(host.cached, ["net1-c1-eth0"]);
    // Another interface of the same container is another attachment.
    const other = host.conf({ ifName: "eth1" });
    await assertRejects(() => runtime.addNetworkListOrUndo(list, other));
    assertEquals(host.story, ["a ADD", "a ADD", "a DEL"]);
  });
});

testRows("addNetworkListOrUndo() runs nothing for a malformed name", [
  ["no container ID", 3, { containerId: "" }],
  ["a malformed container ID", 4, { containerId: "a/b" }],
  ["a malformed interface name", 4, { ifName: "a b" }],
], async ([, code, keys]: [string, number, Record<string, string>]) => {
  using host = new RecordingPlugins();
  host.add("a");
  const error = await assertRejects(
    () =>
      host.runtime().addNetworkListOrUndo(host.list(["a"]), host.conf(keys)),
    CniError,
  );
  assertEquals(error.code, code);
  assertEquals([host.story, host.logged], [[], ""]);
});

Deno.test("addPlugins() passes the initial result to the first plugin unchanged", async () => {
  using host = new RecordingPlugins();
  for (const type of ["a", "b"]) host.add(type, { ADD: "echo '{\"x\":1}'" });
  const prevResult = { cniVersion: "0.2.0", ip4: { ip: "10.0.0.2/24" } };
  const added = await addPlugins(
    createTools({ pluginDirs: [host.directory.path], env: {} }),
    host.list(["a", "b"]),
    host.conf(),
    { prevResult },
  );
  assertEquals(
    host.calls.map(({ stdin }) => stdin.prevResult),
    [prevResult, { cniVersion: "1.1.0", x: 1 }],
  );
  assertEquals(added.document, { cniVersion: "1.1.0", x: 1 });
});

Deno.test("addPlugins() refuses an empty list", async () => {
  using host = new RecordingPlugins();
  const error = await assertRejects(
    () =>
      addPlugins(
        createTools({ pluginDirs: [host.directory.path], env: {} }),
        { name: "net1", cniVersion: "1.1.0", plugins: [] },
        host.conf(),
        {},
      ),
    CniError,
    'Cannot attach to network "net1": it has no plugins',
  );
  assertEquals(error.code, 7);
});
