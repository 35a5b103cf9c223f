import { assertEquals, assertRejects } from "@std/assert";
import { toCniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { CheckNotSupportedError } from "./check.ts";

const REPAIRED =
  `echo '{"cniVersion":"1.1.0","repaired":["x"],"remaining":["y"],"error":"z"}'`;
/** As the Go library refuses a command. */
const UNKNOWN = `echo '{"code":4,"msg":"unknown CNI_COMMAND: REPAIR"}'; exit 1`;
const LACKS = `echo '{"code":999,"msg":"a","details":"also: b"}'; exit 1`;

Deno.test("repairNetworkList() asks each plugin, and only checks those that cannot repair", async () => {
  using host = new RecordingPlugins();
  host.add("own", { REPAIR: REPAIRED });
  host.add("foreign", { REPAIR: UNKNOWN, CHECK: LACKS });
  host.add("silent");
  host.add("broken", { REPAIR: `echo '{"code":11,"msg":"later"}'; exit 1` });
  const list = host.list(["own", "foreign", "silent", "broken"]);
  await host.runtime().addNetworkList(list, host.conf());
  const repairs = await host.runtime().repairNetworkList(list, host.conf());
  const known = { isUnsupported: false }, unknown = { isUnsupported: true };
  assertEquals(repairs, [
    { type: "own", ...known, repaired: ["x"], remaining: ["y"], error: "z" },
    { type: "foreign", ...unknown, repaired: [], remaining: ["a", "b"] },
    { type: "silent", ...unknown, repaired: [], remaining: [] },
    { type: "broken", ...known, repaired: [], remaining: ["later"] },
  ]);
  assertEquals(host.story.slice(4), [
    "own REPAIR",
    "foreign REPAIR",
    "foreign CHECK",
    "silent REPAIR",
    "silent CHECK",
    "broken REPAIR",
  ]);
  assertEquals(host.calls[4]?.stdin.prevResult, { cniVersion: "1.1.0" });
});

Deno.test("repairNetworkList() only checks if it is to change nothing", async () => {
  using host = new RecordingPlugins();
  host.add("own", { REPAIR: REPAIRED, CHECK: LACKS });
  const list = host.list(["own"]);
  await host.runtime().addNetworkList(list, host.conf());
  const [repair] = await host.runtime()
    .repairNetworkList(list, host.conf(), { dryRun: true });
  assertEquals(repair?.remaining, ["a", "b"]);
  assertEquals(host.story.slice(1), ["own CHECK"]);
});

Deno.test("repairNetworkList() needs a result, and a version with CHECK", async () => {
  using host = new RecordingPlugins();
  host.add("own", { REPAIR: REPAIRED });
  const error = await assertRejects(() =>
    host.runtime().repairNetworkList(host.list(["own"]), host.conf())
  );
  assertEquals(toCniError(error).code, 3);
  const old = host.list(["own"], { cniVersion: "0.3.1" });
  await host.runtime().addNetworkList(old, host.conf());
  await assertRejects(
    () => host.runtime().repairNetworkList(old, host.conf()),
    CheckNotSupportedError,
  );
  assertEquals(host.story, ["own ADD"]);
});
