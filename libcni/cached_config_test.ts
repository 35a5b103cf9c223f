import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { AttachmentCache } from "./cache.ts";
import { findCachedConfig, restoreAttachment } from "./cached_config.ts";
import { describeAttachment, type RuntimeConf } from "./runtime_conf.ts";
import { createTools } from "./tools.ts";
import { eachRow } from "../tests/_harness/table.ts";

const BARE = '{"name":"net1","cniVersion":"1.0.0","type":"a","mtu":1}';

function remember(
  host: RecordingPlugins,
  text: string,
  conf: RuntimeConf,
): AttachmentCache {
  const cache = new AttachmentCache(host.cacheDir);
  const bytes = new TextEncoder().encode(text);
  cache.writeAttachment(
    describeAttachment({ name: "net1", bytes }, conf),
    undefined,
  );
  return cache;
}

Deno.test("findCachedConfig() returns the bytes, and the cached arguments with the caller's namespace", () => {
  using host = new RecordingPlugins();
  const cache = remember(host, BARE, host.conf({ args: [["A", "1"]] }));
  const asked = host.conf({ netns: "/other", args: [["B", "2"]] });
  const found = findCachedConfig(cache, { name: "net1" }, asked);
  assertEquals(new TextDecoder().decode(found?.config), BARE);
  assertEquals(found?.conf, {
    ...asked,
    args: [["A", "1"]],
    capabilityArgs: {},
  });
  assertEquals(findCachedConfig(cache, { name: "net2" }, asked), undefined);
});

Deno.test("findCachedConfig() throws for a file without a configuration", () => {
  using host = new RecordingPlugins();
  const cache = remember(host, BARE, host.conf());
  Deno.writeTextFileSync(
    cache.pathOf({ network: "net1", containerId: "c1", ifName: "eth0" }),
    '{"cniVersion":"1.0.0"}',
  );
  assertThrows(
    () => findCachedConfig(cache, { name: "net1" }, host.conf()),
    CniError,
    "wrong kind",
  );
});

Deno.test("restoreAttachment() reads lists and bare plugins", async (t) => {
  const list = '{"name":"net1","cniVersion":"1.0.0","plugins":' +
    '[{"type":"a","mtu":1},{"type":"b"}]}';
  const rows: [name: string, text: string, types: string[]][] = [
    ["a list", list, ["a", "b"]],
    ["a bare plugin", BARE, ["a"]],
  ];
  await eachRow(t, rows, ([, text, types]) => {
    using host = new RecordingPlugins();
    remember(host, text, host.conf());
    const tools = createTools({
      pluginDirs: [],
      env: {},
      cacheDir: host.cacheDir,
    });
    const asked = host.list(["x"]);
    const { network } = restoreAttachment(tools, asked, host.conf());
    assertEquals(network.plugins.map(({ type }) => type), types);
    assertEquals(network.plugins[0]?.document["mtu"], 1);
    assertEquals([network.name, network.cniVersion], ["net1", "1.0.0"]);
  });
});
