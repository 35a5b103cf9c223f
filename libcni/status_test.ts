import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { testRows } from "../tests/_harness/table.ts";

testRows("statusNetworkList() runs in version 1.1.0 and later", [
  ["1.1.0", ["a STATUS", "b STATUS"]],
  ["1.0.0", []],
  ["", []],
  ["broken", []],
], async ([cniVersion, story]: [string, string[]]) => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b");
  const list = host.list(["a", "b"], { cniVersion });
  await host.runtime().statusNetworkList(list);
  assertEquals(host.story, story);
  const [first] = host.calls;
  if (first === undefined) return;
  assertEquals(first.stdin, { cniVersion, name: "net1", type: "a" });
  assertEquals([first.containerId, first.netns, first.ifName], ["", "", ""]);
}, ([cniVersion]) => JSON.stringify(cniVersion));

Deno.test("statusNetworkList() throws the first plugin's error unchanged", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b", {
    STATUS: 'echo \'{"code":51,"msg":"limited","details":"d"}\'; exit 1',
  });
  host.add("c");
  const error = await assertRejects(
    () => host.runtime().statusNetworkList(host.list(["a", "b", "c"])),
    CniError,
  );
  assertEquals(error.toObject("1.1.0"), {
    cniVersion: "1.1.0",
    code: 51,
    msg: "limited",
    details: "d",
  });
  assertEquals(host.story, ["a STATUS", "b STATUS"]);
});
