// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import { assertEquals, assertThrows } from "@std/assert";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { ifPossible } from "../base/files/io.ts";
import { whenSuperseded } from "../tests/_harness/superseded.ts";
import { StepRecord } from "./step_record.ts";

const FAIL = `echo '{"code":11,"msg":"no"}'; exit 1`;

/** Runs ADD, which fails, and then DEL, as multus does. */
async function addAndDel(
  host: RecordingPlugins,
  between: () => void = () => {},
): Promise<string[]> {
  const runtime = host.runtime({ recordsSteps: true });
  const list = host.list([{ type: "a", ipam: {} }, "b", "c"]);
  await runtime.addNetworkList(list, host.conf()).catch(() => {});
  assertEquals(await runtime.isRecorded(list, host.conf()), true);
  between();
  const before = host.story.length;
  await runtime.delNetworkList(list, host.conf(), {
    continueOnDelErrors: true,
  }).catch(() => {});
  return host.story.slice(before);
}

function listRecords(host: RecordingPlugins): string[] {
  const entries = ifPossible(() => [
    ...Deno.readDirSync(`${host.cacheDir}/steps`),
  ]);
  return (entries ?? []).map(({ name }) => name);
}

Deno.test("DEL runs the plugins that a failed ADD started, even a plugin that was removed since", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b", { ADD: FAIL });
  const remove = (): void => {
    host.add("c");
    Deno.removeSync(`${host.directory.path}/b`);
  };
  assertEquals(await addAndDel(host, remove), []);
  assertEquals(listRecords(host), ["net1:c1:eth0"]);
  host.add("b");
  const runtime = host.runtime({ recordsSteps: true });
  const list = host.list([{ type: "a", ipam: {} }, "b", "c"]);
  await runtime.delNetworkList(list, host.conf());
  assertEquals(host.story.slice(-2), ["b DEL", "a DEL"]);
  assertEquals(listRecords(host), []);
});

Deno.test("a superseded call does not change the record", () => {
  using host = new RecordingPlugins();
  const path = `${host.cacheDir}/steps/net1:c1:eth0`;
  using record = StepRecord.begin(path, { warn: (): void => {} });
  record.steps.begin(0, undefined);
  const before = Deno.readTextFileSync(path);
  assertThrows(
    () => whenSuperseded(() => record.steps.begin(7, undefined)),
    Error,
    "superseded",
  );
  whenSuperseded(() => record.remove());
  assertEquals(Deno.readTextFileSync(path), before);
});

Deno.test("DEL skips plugins that were missing at ADD, and a later ADD keeps the record", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b", { DEL: FAIL });
  assertEquals(await addAndDel(host), ["b DEL"]);
  const list = host.list([{ type: "a", ipam: {} }, "b", "c"]);
  const runtime = host.runtime({ recordsSteps: true });
  Deno.removeSync(`${host.directory.path}/b`);
  await runtime.addNetworkList(list, host.conf()).catch(() => {});
  host.add("b");
  await runtime.delNetworkList(list, host.conf());
  assertEquals(host.story.slice(-2), ["b DEL", "a DEL"]);
});

Deno.test("the record of an attachment does not grow with each attempt", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  host.add("b", { ADD: FAIL, DEL: FAIL });
  const runtime = host.runtime({ recordsSteps: true });
  const list = host.list([{ type: "a", ipam: {} }, "b", "c"]);
  const path = `${host.cacheDir}/steps/net1:c1:eth0`;
  // The first ADD has nothing of an earlier one in its record.
  await addAndDel(host);
  const sizes: number[] = [];
  for (let count = 0; count < 2; count++) {
    await addAndDel(host);
    sizes.push(Deno.statSync(path).size);
    await runtime.delNetworkList(list, host.conf()).catch(() => {});
    sizes.push(Deno.statSync(path).size);
  }
  assertEquals(new Set(sizes).size, 1, `${sizes}`);
});

Deno.test("a damaged record is ignored, and replaced by the next record", async () => {
  using host = new RecordingPlugins();
  for (const type of ["a", "c"]) host.add(type);
  host.add("b", { ADD: FAIL });
  const runtime = host.runtime({ recordsSteps: true });
  const list = host.list([{ type: "a", ipam: {} }, "b", "c"]);
  const path = `${host.cacheDir}/steps/net1:c1:eth0`;
  Deno.mkdirSync(`${host.cacheDir}/steps`, { recursive: true });
  Deno.writeTextFileSync(path, '{"left":[');
  host.add("b");
  await runtime.delNetworkList(list, host.conf());
  assertEquals(host.story.slice(-3), ["c DEL", "b DEL", "a DEL"]);
  assertEquals(listRecords(host), []);
  Deno.writeTextFileSync(path, '{"left":[');
  host.add("b", { ADD: FAIL });
  assertEquals(await addAndDel(host), ["b DEL", "a DEL"]);
  assertEquals(listRecords(host), []);
});

Deno.test("a successful ADD leaves no record", async () => {
  using host = new RecordingPlugins();
  for (const type of ["a", "b"]) host.add(type);
  const runtime = host.runtime({ recordsSteps: true });
  await runtime.addNetworkList(host.list(["a", "b"]), host.conf());
  assertEquals([listRecords(host), host.cached], [[], ["net1-c1-eth0"]]);
});

Deno.test("DEL ignores the record of an attachment with the same joined name", async () => {
  using host = new RecordingPlugins();
  const runtime = host.runtime({ recordsSteps: true });
  const conf = { netns: "/run/netns/c1", ifName: "eth0" };
  const failed = [
    host.list(["a", "b", "c"], { name: "net-1" }),
    { ...conf, containerId: "c1" },
  ] as const;
  const alike = [
    host.list(["a", "b", "c"], { name: "net" }),
    { ...conf, containerId: "1-c1" },
  ] as const;
  for (const type of ["a", "c"]) host.add(type);
  host.add("b", { ADD: FAIL });
  await runtime.addNetworkList(...failed).catch(() => {});
  assertEquals(await runtime.isRecorded(...alike), false);
  host.add("b");
  await runtime.delNetworkList(...alike);
  assertEquals(host.story.slice(-3), ["c DEL", "b DEL", "a DEL"]);
  await runtime.delNetworkList(...failed);
  assertEquals(host.story.slice(-2), ["b DEL", "a DEL"]);
  assertEquals(host.calls.length, 7);
});
