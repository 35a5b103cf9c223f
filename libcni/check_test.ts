import { assertEquals, assertRejects } from "@std/assert";
import { describeError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { CheckNotSupportedError } from "./check.ts";
import { testRows } from "../tests/_harness/table.ts";

Deno.test("checkNetworkList() passes the last plugin's result to each plugin", async () => {
  using host = new RecordingPlugins();
  host.add("a", { ADD: 'echo \'{"cniVersion":"1.1.0","n":1}\'' });
  host.add("b", { ADD: 'echo \'{"cniVersion":"1.1.0","n":2}\'' });
  const list = host.list(["a", "b"]);
  await host.runtime().addNetworkList(list, host.conf());
  await host.runtime().checkNetworkList(list, host.conf());
  assertEquals(host.story.slice(2), ["a CHECK", "b CHECK"]);
  const seen = host.calls.slice(2).map(({ stdin }) => stdin.prevResult.n);
  assertEquals(seen, [2, 2]);
});

Deno.test("checkNetworkList() passes no result if none is cached", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  await host.runtime().checkNetworkList(host.list(["a"]), host.conf());
  assertEquals(host.calls[0]?.stdin, {
    cniVersion: "1.1.0",
    name: "net1",
    type: "a",
  });
});

testRows("checkNetworkList() checks the version before disableCheck", [
  ["0.3.1", 'configuration version "0.3.1" does not support the CHECK command'],
  ["", 'configuration version "" does not support the CHECK command'],
  ["broken", 'Cannot parse version "broken"'],
  ["0.4.0", ""],
], async ([cniVersion, text]: [string, string]) => {
  using host = new RecordingPlugins();
  const list = host.list(["a"], { cniVersion, disableCheck: true });
  const run = (): Promise<void> =>
    host.runtime().checkNetworkList(list, host.conf());
  if (text === "") return await run();
  const error = await assertRejects(run);
  assertEquals(describeError(error), text);
  assertEquals(
    error instanceof CheckNotSupportedError,
    cniVersion !== "broken",
  );
}, ([cniVersion]) => JSON.stringify(cniVersion));
