import { assertEquals, assertRejects } from "@std/assert";
import { toCniError } from "../base/error.ts";
import { eventually } from "../tests/_harness/eventually.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { testRows } from "../tests/_harness/table.ts";
import { CheckNotSupportedError } from "./check.ts";

const REPAIRED =
  `echo '{"cniVersion":"1.1.0","repaired":["x"],"remaining":["y"],"error":"z"}'`;
const versions = (more: string): string =>
  `echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]${more}}'`;
/** The answer to VERSION of a plugin that has REPAIR. */
const DECLARED = versions(',"commands":["REPAIR"]');
const LACKS = `echo '{"code":999,"msg":"a","details":"also: b"}'; exit 1`;

Deno.test("repairNetworkList() runs REPAIR of plugins that declare it, and only checks others", async () => {
  using host = new RecordingPlugins();
  host.add("own", { VERSION: DECLARED, REPAIR: REPAIRED });
  host.add("foreign", {
    VERSION: versions(""),
    CHECK: LACKS,
    // Whatever it is asked: it must not come to that.
    REPAIR: REPAIRED,
  });
  host.add("silent");
  host.add("broken", {
    VERSION: DECLARED,
    REPAIR: `echo '{"code":11,"msg":"later"}'; exit 1`,
  });
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
    "own VERSION",
    "own REPAIR",
    "foreign VERSION",
    "foreign CHECK",
    "silent VERSION",
    "silent CHECK",
    "broken VERSION",
    "broken REPAIR",
  ]);
  assertEquals(host.calls[5]?.stdin.prevResult, { cniVersion: "1.1.0" });
});

Deno.test("repairNetworkList() repeats VERSION after an aborted probe", async () => {
  using host = new RecordingPlugins();
  // The first time, it does not answer.
  const hangs = '[ -e "$0.asked" ] || { : > "$0.asked"; exec sleep 60; };';
  host.add("own", { VERSION: `${hangs} ${DECLARED}`, REPAIR: REPAIRED });
  const list = host.list(["own"]), conf = host.conf();
  const runtime = host.runtime();
  await runtime.addNetworkList(list, conf);
  const end = new AbortController();
  const { signal } = end;
  const ended = assertRejects(() =>
    runtime.repairNetworkList(list, conf, { signal })
  );
  await eventually("it is asked", () => host.story.includes("own VERSION"));
  end.abort(new Error("ended"));
  await ended;
  const [repair] = await runtime.repairNetworkList(list, conf);
  assertEquals(repair?.repaired, ["x"]);
});

testRows(
  "repairNetworkList() sends REPAIR only to plugins that declare it",
  [
    ["no answer", "exit 0"],
    ["an error", `echo '{"code":100,"msg":"unknown CNI_COMMAND"}'; exit 1`],
    ["no JSON", "echo nothing"],
    ["no list", versions(',"commands":"REPAIR"')],
    ["other commands", versions(',"commands":["REPAIRS"]')],
  ],
  async ([, VERSION]) => {
    using host = new RecordingPlugins();
    host.add("foreign", { VERSION, REPAIR: REPAIRED });
    const list = host.list(["foreign"]);
    await host.runtime().addNetworkList(list, host.conf());
    const repairs = await host.runtime().repairNetworkList(list, host.conf());
    assertEquals(repairs, [
      { type: "foreign", isUnsupported: true, repaired: [], remaining: [] },
    ]);
    assertEquals(host.story.slice(1), ["foreign VERSION", "foreign CHECK"]);
  },
);

Deno.test("repairNetworkList() reports a malformed result of REPAIR", async () => {
  using host = new RecordingPlugins();
  host.add("own", { VERSION: DECLARED, REPAIR: "echo {}" });
  const list = host.list(["own"]);
  await host.runtime().addNetworkList(list, host.conf());
  const [repair] = await host.runtime()
    .repairNetworkList(list, host.conf());
  assertEquals(repair?.isUnsupported, false);
  assertEquals(repair?.remaining, [
    "Cannot decode answer: it lists neither what is repaired nor what remains",
  ]);
});

Deno.test("repairNetworkList() only checks in a dry run", async () => {
  using host = new RecordingPlugins();
  host.add("own", { REPAIR: REPAIRED, CHECK: LACKS });
  const list = host.list(["own"]);
  await host.runtime().addNetworkList(list, host.conf());
  const [repair] = await host.runtime()
    .repairNetworkList(list, host.conf(), { dryRun: true });
  assertEquals(repair?.remaining, ["a", "b"]);
  assertEquals(host.story.slice(1), ["own CHECK"]);
});

Deno.test("repairNetworkList() requires a result, and a version with CHECK", async () => {
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
