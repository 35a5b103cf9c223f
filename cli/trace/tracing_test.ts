// deno-lint-ignore-file no-sync-fn-in-async-fn -- compares functions

import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { registry } from "../../plugins/registry.ts";
import { lengthOf, toChromeTrace, toSteps } from "./timeline.ts";
import { drawTrace } from "./svg.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import {
  formatRecord,
  maskSecretValues,
  parseTrace,
  type TraceRecord,
} from "./record.ts";
import { startTracing } from "./start.ts";

rootTest(
  "startTracing() records plugins, requests and files until it is disposed of",
  async (t) => {
    using hosts = TestHosts.create();
    const path = `${hosts.directory}/trace`;
    const before = { ...registry };
    const functions = [Deno.statSync, Deno.Command, Deno.exit, Deno.dlopen];
    const config = {
      cniVersion: "1.1.0",
      name: "pods",
      type: "ptp",
      ipMasq: true,
      ipMasqBackend: "nftables",
      apiToken: "hunter2",
      ipam: hosts.hostLocal("10.1.2.0/24"),
    };
    {
      using _tracing = startTracing(path, registry);
      assertSuccess(await hosts.run("ptp", "ADD", config));
    }
    assertSuccess(await hosts.run("ptp", "DEL", config));
    const text = await Deno.readTextFile(path);
    const records = parseTrace(text);
    const find = (kind: string, name: string): TraceRecord => {
      const found = records.find((one) =>
        one.kind === kind && one.name === name
      );
      assert(found, `${kind} ${name}`);
      return found;
    };
    await t.step("all kinds, with their objects", () => {
      const add = find("plugin", "ptp ADD");
      assertEquals(add.object, "eth0");
      const ipam = find("plugin", "host-local ADD");
      assert(ipam.startUs >= add.startUs);
      assert(ipam.startUs + ipam.durationUs <= add.startUs + add.durationUs);
      assertStringIncludes(find("netlink", "RTM_NEWLINK").object, "veth");
      const { object, detail } = find("nftables", "transaction");
      assertStringIncludes(
        object,
        "NFT_MSG_NEWRULE cni_plugins_masquerade masq_checks",
      );
      assertStringIncludes(JSON.stringify(detail), '"chain":"masq_checks"');
      assertStringIncludes(find("file", "link").object, "10.1.2.2");
      find("netlink", "RTM_GETLINK");
    });
    await t.step("no DEL, no secrets, no replaced file", () => {
      assertEquals(records.filter(({ name }) => name.endsWith("DEL")), []);
      assert(!text.includes("hunter2"));
      assertEquals({ ...registry }, before);
      assertEquals(
        [Deno.statSync, Deno.Command, Deno.exit, Deno.dlopen],
        functions,
      );
    });
    await t.step("only the owner can read the file", async () => {
      assertEquals(Number((await Deno.stat(path)).mode) & 0o777, 0o600);
    });
    await t.step("as Chrome's format", () => {
      const steps = toSteps(records);
      const { traceEvents } = toChromeTrace(steps);
      const events = traceEvents as Record<string, unknown>[];
      assertEquals(
        events.filter(({ ph }) => ph === "X").length,
        records.length,
      );
      const [process] = events.filter(({ ph }) => ph === "M");
      assertEquals(process?.["args"], { name: "ptp ADD" });
      assert(
        events.every(({ dur = 0, ts = 0 }) =>
          Number(dur) >= 0 && Number(ts) >= 0
        ),
      );
    });
  },
);

/** A record of a process. */
function record(
  startUs: number,
  durationUs: number,
  more: Partial<TraceRecord> = {},
): TraceRecord {
  return {
    kind: "netlink",
    name: "RTM_NEWLINK",
    object: '"eth0" <&>',
    startUs,
    durationUs,
    pid: 1,
    ...more,
  };
}

Deno.test("parseTrace() joins processes by time, and ignores truncated lines", () => {
  const text = formatRecord(record(20, 5)) +
    formatRecord(record(10, 5, { pid: 2 })) +
    '{"kind":"file","name"\n' + "{}\n";
  assertEquals(parseTrace(text).map(({ pid, startUs }) => [pid, startUs]), [[
    2,
    10,
  ], [1, 20]]);
});

Deno.test("toSteps() nests the steps of a plugin", () => {
  const plugin = { kind: "plugin", name: "ptp ADD" } as const;
  const steps = toSteps([
    record(1000, 500, plugin),
    record(1100, 100),
    record(1100, 100, { pid: 2 }),
    record(1300, 200),
    record(1600, 100),
  ]);
  assertEquals(steps.map(({ depth }) => depth), [0, 1, 0, 1, 0]);
  assertEquals(steps.map(({ atMs }) => atMs), [0, 0.1, 0.1, 0.3, 0.6]);
  assertEquals(lengthOf(steps), 0.7);
});

Deno.test("drawTrace() puts overlapping steps into lanes of their own", () => {
  const svg = drawTrace(
    "a <title>",
    toSteps([
      record(0, 50_000, { kind: "plugin", name: "a" }),
      record(10_000, 60_000, { kind: "plugin", name: "b" }),
      record(55_000, 20_000, { kind: "plugin", name: "c", error: "EEXIST" }),
      ...Array.from({ length: 40 }, (_, at) => record(at * 1000, 900)),
    ]),
  );
  const bars = [...svg.matchAll(
    /<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="18"/g,
  )].map(([, x, y, width]) => [Number(x), Number(y), Number(width)] as const);
  assertEquals(bars.length, 43);
  for (const [x, y, width] of bars) {
    assert(x + width <= 1200);
    const over = bars.filter(([x2, y2, width2]) =>
      y2 === y && x2 < x + width - 0.2 && x < x2 + width2 - 0.2
    );
    assertEquals(over.length, 1);
  }
  assertStringIncludes(svg, 'class="plugin failed"');
  assert(!svg.includes("<title>a <title>"));
});

Deno.test("maskSecretValues() masks secrets in texts", () => {
  const text =
    `https://me:abc@host/, {"token": "abc"}, {\\"password\\":\\"abc\\"}`;
  assertEquals(
    maskSecretValues([text, "TOKEN=abc;K8S_POD_NAME=web", "10.1.2.3/24"]),
    [
      `https://***@host/, {"token": "***"}, {\\"password\\":\\"***\\"}`,
      "TOKEN=***;K8S_POD_NAME=web",
      "10.1.2.3/24",
    ],
  );
});

Deno.test("maskSecretValues() masks values by their keys", () => {
  const masked = maskSecretValues({
    password: "x",
    nested: [{ authToken: { a: 1 } }],
    key: "y",
    keys: ["z"],
    tokens: true,
    name: "n",
  });
  assertEquals(masked, {
    password: "***",
    nested: [{ authToken: "***" }],
    key: "***",
    keys: ["z"],
    tokens: true,
    name: "n",
  });
});

Deno.test("startTracing() follows no link", () => {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  const file = `${directory}/file`;
  Deno.writeTextFileSync(file, "");
  Deno.symlinkSync("file", `${directory}/trace`);
  assertThrows(
    () => startTracing(`${directory}/trace`, {}, "ptp ADD"),
    Error,
    "it is not a regular file",
  );
  assertEquals(Deno.readTextFileSync(file), "");
  Deno.removeSync(directory, { recursive: true });
});
