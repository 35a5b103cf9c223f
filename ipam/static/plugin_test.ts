import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { assertFailure, SILENT } from "../../tests/_harness/recorder.ts";
import { runStatic, staticConfig } from "./testing.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

const ADDRESS = { address: "10.10.0.1/24", gateway: "10.10.0.254" };

/**
 * Lists the addresses that ADD returns, as `address` or `address via gateway`.
 */
async function addressesOf(
  config: JsonObject,
  env?: Environment,
): Promise<string[]> {
  const { json, stdout, exitCode, stderr } = await runStatic(
    "ADD",
    config,
    env,
  );
  assertEquals({ exitCode, stderr }, { exitCode: 0, stderr: "" }, stdout);
  return (json.ips ?? []).map(({ address, gateway }: JsonObject) =>
    gateway === undefined ? address : `${address} via ${gateway}`
  );
}

/** A configuration, and the result of ADD. */
type Row = [string, JsonObject, JsonObject, string, string[]];

function args(...ips: string[]): JsonObject {
  return { args: { cni: { ips } } };
}

function runtime(...ips: string[]): JsonObject {
  return { runtimeConfig: { ips } };
}

Deno.test("staticIpam.add() returns addresses from the source with the highest precedence", async (t) => {
  const own = { addresses: [ADDRESS] };
  const rows: Row[] = [
    ["nothing", {}, {}, "", []],
    ["empty lists", { addresses: [] }, { ...args(), ...runtime() }, "", []],
    ["null", { addresses: null }, { runtimeConfig: null }, "", []],
    ["addresses", own, {}, "", ["10.10.0.1/24 via 10.10.0.254"]],
    [
      "a gateway that is empty or null, and one outside",
      {
        addresses: [
          { address: "10.1.0.1/24", gateway: "" },
          { address: "10.2.0.1/24", gateway: null },
          { address: "10.3.0.1/32", gateway: "169.254.1.1" },
        ],
      },
      {},
      "",
      ["10.1.0.1/24", "10.2.0.1/24", "10.3.0.1/32 via 169.254.1.1"],
    ],
    [
      "the same address twice",
      { addresses: [ADDRESS, ADDRESS] },
      {},
      "",
      ["10.10.0.1/24 via 10.10.0.254", "10.10.0.1/24 via 10.10.0.254"],
    ],
    [
      "CNI_ARGS after addresses",
      own,
      {},
      "IP= 10.10.0.2/24 , 2001:db8::2/64",
      ["10.10.0.1/24 via 10.10.0.254", "10.10.0.2/24", "2001:db8::2/64"],
    ],
    [
      "other keys in CNI_ARGS that may be there",
      {},
      {},
      "IgnoreUnknown=1;K8S_POD_NAME=x;IP=10.0.0.1/8;GATEWAY=",
      ["10.0.0.1/8"],
    ],
    ["args in place of addresses", own, args("10.9.0.1/24"), "IP=10.8.0.1/24", [
      "10.9.0.1/24",
    ]],
    [
      "runtimeConfig in place of all",
      own,
      { ...args("10.9.0.1/24"), ...runtime("10.7.0.1/24") },
      "IP=10.8.0.1/24",
      ["10.7.0.1/24"],
    ],
    [
      "keys in another case",
      { Addresses: [{ ADDRESS: "10.0.0.1/8" }] },
      { Args: { CNI: { Ips: ["10.9.0.1/24"] } } },
      "",
      ["10.9.0.1/24"],
    ],
    [
      "addresses that are replaced, and wrong",
      { addresses: [{ address: "nonsense" }, {}] },
      runtime("10.7.0.1/24"),
      "",
      ["10.7.0.1/24"],
    ],
    [
      "texts in their canonical form, host bits included",
      {},
      runtime("2001:DB8:0:0::0001/64", "::ffff:10.0.0.1/120"),
      "",
      ["2001:db8::1/64", "10.0.0.1/24"],
    ],
  ];
  await eachRow(t, rows, async ([, ipam, others, cniArgs, want]) => {
    const config = staticConfig(ipam, others);
    assertEquals(await addressesOf(config, { CNI_ARGS: cniArgs }), want);
  });
});

Deno.test("staticIpam.add() returns each address with its gateway", async (t) => {
  const own = {
    addresses: [
      { address: "10.9.0.1/24" },
      ADDRESS,
      { address: "10.10.0.2/16", gateway: "10.10.255.254" },
    ],
  };
  const rows: Row[] = [
    [
      "of CNI_ARGS, each for its subnet, the last of several",
      {},
      {},
      "IP=10.1.0.1/24,10.2.0.1/24,2001:db8::1/64;" +
      "GATEWAY=10.2.0.253, 2001:db8::ff ,10.2.0.254,10.3.0.1",
      [
        "10.1.0.1/24",
        "10.2.0.1/24 via 10.2.0.254",
        "2001:db8::1/64 via 2001:db8::ff",
      ],
    ],
    [
      "of CNI_ARGS for addresses that have none",
      { addresses: [ADDRESS, { address: "10.9.0.1/24" }] },
      {},
      "GATEWAY=10.9.0.254,10.10.0.253",
      ["10.10.0.1/24 via 10.10.0.254", "10.9.0.1/24 via 10.9.0.254"],
    ],
    [
      "of addresses for those of args",
      own,
      args("10.10.0.7/24", "10.9.0.7/24", "10.8.0.7/24"),
      "",
      ["10.10.0.7/24 via 10.10.0.254", "10.9.0.7/24", "10.8.0.7/24"],
    ],
    [
      "of addresses for those of runtimeConfig",
      own,
      runtime("10.10.7.7/16", "2001:db8::7/64"),
      "",
      ["10.10.7.7/16 via 10.10.255.254", "2001:db8::7/64"],
    ],
    [
      "of entries with a gateway only, for addresses in no other entry's subnet",
      {
        addresses: [{ gateway: "192.0.2.1" }, ADDRESS, { gateway: "fe80::1" }],
      },
      args("10.10.0.7/24", "10.9.0.7/24", "2001:db8::7/64"),
      "",
      [
        "10.10.0.7/24 via 10.10.0.254",
        "10.9.0.7/24 via 192.0.2.1",
        "2001:db8::7/64 via fe80::1",
      ],
    ],
    [
      "but not of CNI_ARGS for those",
      {},
      runtime("10.10.0.7/24"),
      "GATEWAY=10.10.0.254",
      ["10.10.0.7/24"],
    ],
    [
      "and passes over invalid addresses",
      { addresses: [{ address: "10.10.0.1", gateway: "10.10.0.1" }, ADDRESS] },
      runtime("10.10.0.7/24"),
      "",
      ["10.10.0.7/24 via 10.10.0.254"],
    ],
  ];
  await eachRow(t, rows, async ([, ipam, others, cniArgs, want]) => {
    const config = staticConfig(ipam, others);
    assertEquals(await addressesOf(config, { CNI_ARGS: cniArgs }), want);
  });
});

/** Invalid configurations, and their errors. */
const WRONG: readonly [
  name: string,
  ipam: JsonObject | undefined,
  others: JsonObject,
  cniArgs: string,
  code: number,
  msg: string,
][] = [
  ["no ipam", undefined, {}, "", 7, "IPAM config missing 'ipam' key"],
  [
    "an address that is missing",
    { addresses: [{ gateway: "10.0.0.1" }] },
    {},
    "",
    7,
    "the 'address' field is expected to be in CIDR notation, got: ''",
  ],
  [
    "a gateway of the other family",
    { addresses: [{ address: "10.0.0.1/24", gateway: "2001:db8::1" }] },
    {},
    "",
    7,
    "gateway 2001:db8::1 of 10.0.0.1/24 is not an IPv4 address",
  ],
  [
    "a prefix that is too long",
    { addresses: [{ address: "10.0.0.1/33" }] },
    {},
    "",
    7,
    "the 'address' field is expected to be in CIDR notation, " +
    "got: '10.0.0.1/33'",
  ],
  [
    "an octet with a leading zero",
    {},
    runtime("10.0.0.1/24", "10.0.0.01/24"),
    "",
    7,
    "an entry in the 'ips' field is NOT in CIDR notation, got: '10.0.0.01/24'",
  ],
  [
    "a request that is not used",
    {},
    { ...args("10.0.0.1"), ...runtime("10.0.0.2/24") },
    "",
    7,
    "an entry in the 'ips' field is NOT in CIDR notation, got: '10.0.0.1'",
  ],
  [
    "blanks around a request",
    {},
    runtime(" 10.0.0.1/24"),
    "",
    7,
    "an entry in the 'ips' field is NOT in CIDR notation, got: ' 10.0.0.1/24'",
  ],
  [
    "an invalid gateway",
    { addresses: [{ address: "10.0.0.1/24", gateway: "10.0.0.300" }] },
    {},
    "",
    7,
    "Cannot decode network configuration: ipam.addresses[0].gateway: " +
    "invalid IP address: 10.0.0.300",
  ],
  [
    "addresses that are not a list",
    { addresses: "10.0.0.1/24" },
    {},
    "",
    7,
    "Cannot decode network configuration: ipam.addresses: " +
    "expected an array, got a string",
  ],
  [
    "an empty item in CNI_ARGS",
    {},
    {},
    "IP=10.0.0.1/24,",
    4,
    "the 'ip' field is expected to be in CIDR notation, got: ''",
  ],
  [
    "an invalid gateway in CNI_ARGS",
    {},
    {},
    "GATEWAY=10.0.0.1, x",
    4,
    "invalid gateway address:  x",
  ],
  [
    "CNI_ARGS that are not used",
    {},
    runtime("10.0.0.1/24"),
    "IP=x",
    4,
    "the 'ip' field is expected to be in CIDR notation, got: 'x'",
  ],
  [
    "a key in CNI_ARGS that nobody knows",
    {},
    {},
    "IP=10.0.0.1/24;MAC=x",
    4,
    'CNI_ARGS: unknown args ["MAC=x"]',
  ],
  [
    "an invalid pair in CNI_ARGS",
    {},
    {},
    "IP=10.0.0.1/24;",
    4,
    'CNI_ARGS: invalid pair ""',
  ],
];

Deno.test("staticIpam.add() refuses invalid input, and del() accepts it", async (t) => {
  await eachRow(t, WRONG, async ([, ipam, others, cniArgs, code, msg]) => {
    const config = staticConfig(ipam, others);
    const env = { CNI_ARGS: cniArgs };
    assertFailure(await runStatic("ADD", config, env), { code, msg });
    const { exitCode, stdout } = await runStatic("DEL", config, env);
    assertEquals([exitCode, stdout], [0, ""]);
  });
});

Deno.test("staticIpam.add() fails without an address before version 0.3.0", async () => {
  const config = staticConfig({}, { cniVersion: "0.2.0" });
  const { json, exitCode } = await runStatic("ADD", config);
  assertEquals(exitCode, 1);
  assertStringIncludes(json.msg, "no valid IP addresses");
});

Deno.test("staticIpam.add() returns routes as configured", async () => {
  const routes = [
    { dst: "10.0.0.5/8", gw: "10.10.0.1", mtu: 1400, advmss: 1360 },
    { dst: "::/0", priority: 5, table: 0, scope: 253 },
  ];
  const config = staticConfig({ addresses: [ADDRESS], routes });
  const { json } = await runStatic("ADD", config);
  assertEquals(json.routes, routes);
});

Deno.test("staticIpam.check() compares prevResult with the result of an ADD", async (t) => {
  const lost = "static: Failed to match addr 10.10.0.1 on interface eth0";
  const config = staticConfig({ addresses: [ADDRESS] });
  const bare = staticConfig({ addresses: [{ address: "10.10.0.1/24" }] });
  const requested = { ...config, ...runtime("10.10.0.1/24") };
  const others = { address: "10.10.0.9/24", gateway: "10.10.0.254" };
  const wrong = { address: "10.10.0.1/24", gateway: "10.10.0.253" };
  const none = { address: "10.10.0.1/24" };
  const rows: [string, JsonObject, JsonObject[], string][] = [
    ["the same", config, [ADDRESS], ""],
    ["more addresses", config, [others, ADDRESS], ""],
    [
      "another prefix length",
      config,
      [{ ...ADDRESS, address: "10.10.0.1/32" }],
      "",
    ],
    ["a gateway where none is expected", bare, [wrong], ""],
    ["a requested address without its gateway", requested, [none], ""],
    ["no addresses", staticConfig({}), [], ""],
    ["a missing address", config, [others], "prevResult has no such address"],
    ["no address at all", config, [], "prevResult has no such address"],
    [
      "another gateway",
      config,
      [wrong],
      "its gateway is 10.10.0.254, but in prevResult 10.10.0.253",
    ],
    [
      "no gateway",
      config,
      [none],
      "its gateway is 10.10.0.254, but in prevResult none",
    ],
    [
      "another gateway of a requested address",
      requested,
      [wrong],
      "its gateway is 10.10.0.254, but in prevResult 10.10.0.253",
    ],
    [
      "two missing addresses",
      staticConfig({
        addresses: [ADDRESS, { address: "2001:db8::1/64" }],
      }),
      [],
      "prevResult has no such address\n" +
      "also: static: Failed to match addr 2001:db8::1 on interface eth0; " +
      "prevResult has no such address",
    ],
  ];
  await eachRow(t, rows, async ([, given, ips, details]) => {
    const prevResult = { cniVersion: "1.1.0", ips };
    const outcome = await runStatic("CHECK", { ...given, prevResult });
    if (details === "") assertEquals(outcome, SILENT);
    else assertFailure(outcome, { code: 999, msg: lost, details });
  });
  await t.step("including the addresses of CNI_ARGS", async () => {
    const prevResult = { cniVersion: "1.1.0", ips: [] };
    const env = { CNI_ARGS: "IP=10.10.0.1/24" };
    const given = { ...staticConfig({}), prevResult };
    assertFailure(await runStatic("CHECK", given, env), {
      code: 999,
      msg: lost,
    });
  });
  await t.step("and fails without prevResult", async () => {
    const msg = "Required prevResult missing";
    assertFailure(await runStatic("CHECK", config), { code: 7, msg });
  });
});

testRows("staticIpam.status() fails if every ADD would fail", [
  ["addresses", { addresses: [ADDRESS] }, ""],
  ["none, which may come with ADD", {}, ""],
  ["no ipam", undefined, "IPAM config missing 'ipam' key"],
  [
    "an invalid address",
    { addresses: [{ address: "10.10.0.1" }] },
    "the 'address' field is expected to be in CIDR notation, " +
    "got: '10.10.0.1'",
  ],
  [
    "an invalid route",
    { routes: [{ dst: "x" }] },
    "Cannot decode network configuration: ipam.routes[0].dst: " +
    "invalid CIDR address: x",
  ],
], async ([, ipam, msg]: [string, JsonObject | undefined, string]) => {
  const env = { CNI_ARGS: "of=another;program" };
  const outcome = await runStatic("STATUS", staticConfig(ipam), env);
  if (msg === "") assertEquals(outcome, SILENT);
  else assertFailure(outcome, { code: 7, msg });
});

Deno.test("staticIpam.gc() succeeds without output", async () => {
  const config = staticConfig({ addresses: [{ address: "nonsense" }] }, {
    "cni.dev/valid-attachments": [],
  });
  assertEquals(await runStatic("GC", config), SILENT);
});
