import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describeError } from "../base/error.ts";
import { TestNode } from "./testing.ts";
import { chooseNetwork, type NetworkChoice } from "./choose_network.ts";
import { FileStamps } from "../base/files/file_stamps.ts";
import { buildLoopback } from "./node.ts";

function choose(
  node: TestNode,
  options: { confDir?: string; hasLoopback?: boolean } = {},
): Promise<NetworkChoice> {
  return chooseNetwork({
    confDir: options.confDir ?? node.conf.path,
    pluginDirs: [node.plugins.directory.path],
    runtime: node.plugins.runtime(),
    loopback: options.hasLoopback ? buildLoopback() : undefined,
  }, new FileStamps());
}

function skippedIn(node: TestNode, { skipped }: NetworkChoice): string[] {
  return skipped.map(({ path, error }) =>
    `${path.replace(`${node.conf.path}/`, "")}: ${describeError(error)}`
      .replace(node.plugins.directory.path, "BIN")
  );
}

Deno.test("chooseNetwork() returns the first usable file", async () => {
  using node = new TestNode();
  node.addPlugin("a");
  node.addPlugin("old", {
    VERSION: `echo '{"cniVersion":"0.4.0","supportedVersions":["0.4.0"]}'`,
  });
  node.addPlugin("mute", { VERSION: "exit 3" });
  node.conf.add("00-readme.txt", "not a network");
  node.conf.add("10-broken.conflist", "{");
  node.addNetwork("20-missing.conflist", ["a", "missing"], { name: "missing" });
  node.addNetwork("30-old.conflist", ["old"], { name: "old" });
  node.addNetwork("40-mute.conflist", ["mute"], { name: "mute" });
  node.conf.add("50-good.conf", {
    cniVersion: "1.0.0",
    name: "good",
    type: "a",
    capabilities: { ipRanges: true, mac: false },
  });
  node.addNetwork("60-late.conflist", ["a"], { name: "late" });
  const choice = await choose(node);
  assertEquals(choice.network?.list.name, "good");
  assertEquals(choice.network?.path, `${node.conf.path}/50-good.conf`);
  assertEquals(choice.network?.capabilities, ["ipRanges"]);
  assertEquals(choice.readable?.name, "missing");
  assertEquals(choice.isTransient, true);
  const [broken, ...others] = skippedIn(node, choice);
  assertStringIncludes(broken ?? "", "10-broken.conflist: ");
  assertEquals(others.slice(0, 2), [
    '20-missing.conflist: [failed to find plugin "missing" in path [BIN]]',
    '30-old.conflist: [plugin old does not support config version "1.1.0"]',
  ]);
  assertStringIncludes(others[2] ?? "", "40-mute.conflist: ");
  assertStringIncludes(others[2] ?? "", "exit status 3");
});

Deno.test("chooseNetwork() finds none", async (t) => {
  using node = new TestNode();
  await t.step("in an empty directory", async () => {
    const { network, skipped, isTransient } = await choose(node);
    assertEquals([network, skipped, isTransient], [undefined, [], false]);
  });
  await t.step("in a missing directory", async () => {
    const confDir = `${node.conf.path}/missing`;
    const { network, skipped } = await choose(node, { confDir });
    assertEquals([network, skipped], [undefined, []]);
  });
  await t.step("in an unreadable directory", async () => {
    const confDir = node.conf.add("file", "");
    const { network, skipped, isTransient } = await choose(node, { confDir });
    assertEquals([network, isTransient], [undefined, true]);
    assertEquals(skipped.map(({ path }) => path), [confDir]);
  });
  await t.step("in a directory with only a broken file", async () => {
    node.conf.add("10.conflist", "{");
    const { network, readable, skipped, isTransient } = await choose(node);
    assertEquals([network, readable, isTransient], [
      undefined,
      undefined,
      false,
    ]);
    assertEquals(skipped.length, 1);
  });
});

Deno.test("chooseNetwork() reports why pods would have no loopback", async () => {
  using node = new TestNode();
  node.addPlugin("a");
  node.addNetwork("10.conflist", ["a"]);
  const there = await choose(node, { hasLoopback: true });
  assertEquals([there.loopbackError, there.isTransient], [undefined, false]);
  await Deno.remove(`${node.plugins.directory.path}/loopback`);
  const gone = await choose(node, { hasLoopback: true });
  assert(gone.loopbackError !== undefined);
  assertEquals([gone.network?.list.name, gone.isTransient], ["net1", true]);
});
