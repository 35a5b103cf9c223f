import { assertEquals, assertThrows } from "@std/assert";
import { readCmdArgs } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { decode, type JsonObject } from "../../base/json/json.ts";
import { rangeSetsOf, requestedIpsOf } from "./config.ts";
import { type HostLocalConfig, hostLocalSchema } from "./schema.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function decodeConfig(config: JsonObject): HostLocalConfig {
  return decode(hostLocalSchema(), config, "network configuration");
}

/** Lists the sets as `subnet start-end gateway`. */
function resolveSets(config: JsonObject, cniVersion = "1.1.0"): string[][] {
  return rangeSetsOf(decodeConfig(config), cniVersion).map((set) =>
    set.map(({ subnet, start, end, gateway }) =>
      `${subnet} ${start}-${end} ${gateway}`
    )
  );
}

/** Lists the addresses requested by a configuration and CNI_ARGS. */
function requestedIps(config: JsonObject, cniArgs = ""): string[] {
  const args = readCmdArgs("STATUS", { CNI_PATH: "/x", CNI_ARGS: cniArgs });
  return requestedIpsOf(decodeConfig(config), args).map(String);
}

testRows(
  "rangeSetsOf() reads ranges as the Go plugin does",
  [
    [
      "keys in another case, empty and null values",
      {
        IPAM: {
          Subnet: "10.1.2.0/24",
          RANGESTART: "",
          gateway: null,
          ranges: null,
        },
      },
      [["10.1.2.0/24 10.1.2.1-10.1.2.254 10.1.2.1"]],
    ],
  ],
  ([, config, want]: [string, JsonObject, string[][]]) =>
    assertEquals(resolveSets(config), want),
);

Deno.test("rangeSetsOf() reads the excluded addresses of each range", async (t) => {
  const range = {
    subnet: "10.1.2.0/24",
    exclude: ["10.1.2.9", "10.1.2.64/26"],
  };
  const rows: [name: string, config: JsonObject][] = [
    ["of the single range", { ipam: range }],
    ["of the list", { ipam: { ranges: [[range]] } }],
    ["of the runtime", { ipam: {}, runtimeConfig: { ipRanges: [[range]] } }],
  ];
  await eachRow(t, rows, ([, config]) => {
    const [[{ excluded = [] } = {}] = []] = rangeSetsOf(
      decodeConfig(config),
      "1.1.0",
    );
    assertEquals(excluded.map(String), ["10.1.2.9/32", "10.1.2.64/26"]);
  });
});

Deno.test("rangeSetsOf() refuses incomplete and contradictory ranges", async (t) => {
  const ranges = (...sets: string[][]): JsonObject => ({
    ipam: { ranges: sets.map((set) => set.map((subnet) => ({ subnet }))) },
  });
  const rows: [id: string, config: JsonObject, message: string][] = [
    ["no ipam", {}, "IPAM config missing 'ipam' key"],
    [
      "an empty set",
      ranges(["10.1.0.0/24"], []),
      "invalid range set 1: empty range set",
    ],
    [
      "no subnet",
      { ipam: { ranges: [[{ rangeStart: "10.1.2.3" }]] } },
      "Cannot decode network configuration: ipam.ranges[0][0].subnet: missing",
    ],
    [
      "an exclusion of no range",
      {
        ipam: { exclude: ["10.1.2.3"], ranges: [[{ subnet: "10.1.2.0/24" }]] },
      },
      '"exclude" belongs to no range: move it into the ranges of "ranges"',
    ],
    [
      "an exclusion elsewhere",
      {
        ipam: {
          ranges: [[{ subnet: "10.1.2.0/24", exclude: ["10.1.3.0/30"] }]],
        },
      },
      "invalid range set 0: Exclude 10.1.3.0/30 not in network 10.1.2.0/24",
    ],
    [
      "an exclusion that is not an address",
      { ipam: { subnet: "10.1.2.0/24", exclude: ["10.1.2.3-10.1.2.5"] } },
      "Cannot decode network configuration: ipam.exclude[0]: " +
      "invalid IP address: 10.1.2.3-10.1.2.5",
    ],
    [
      "no address",
      { ipam: { subnet: "10.1.2.0/24", gateway: "10.1.2.01" } },
      "Cannot decode network configuration: ipam.gateway: " +
      "invalid IP address: 10.1.2.01",
    ],
  ];
  await eachRow(t, rows, ([, config, message]) => {
    const error = assertThrows(() => resolveSets(config), CniError);
    assertEquals(error.message, message);
    assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
  });
});

Deno.test("rangeSetsOf() refuses a second set of a family before version 0.3.0", () => {
  const config: JsonObject = {
    ipam: { subnet: "10.1.2.0/24", ranges: [[{ subnet: "10.1.3.0/24" }]] },
  };
  assertThrows(
    () => resolveSets(config, "0.1.0"),
    CniError,
    "CNI version 0.1.0 does not support more than 1 address per family",
  );
  assertEquals(resolveSets(config, "0.3.0").length, 2);
});

Deno.test("requestedIpsOf() joins CNI_ARGS, args.cni.ips and runtimeConfig.ips", async (t) => {
  const args = (...ips: string[]): JsonObject => ({ args: { cni: { ips } } });
  const runtimeConfig = (...ips: string[]): JsonObject => ({
    runtimeConfig: { ips },
  });
  const rows: [string, JsonObject, string, string[]][] = [
    ["addresses of two families", {}, "IP=10.1.2.11/24,fd00::5/64", [
      "10.1.2.11",
      "fd00::5",
    ]],
    ["other arguments", {}, "IgnoreUnknown=1;K8S_POD_NAME=x;IP=::5", ["::5"]],
    ["no address", {}, "IP=", []],
    ["nothing", {}, "", []],
    [
      "all three, in order",
      { ...args("10.0.0.2"), ...runtimeConfig("10.0.0.3") },
      "IP=10.0.0.1",
      ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
    ],
    [
      "one address by several ways",
      { ...args("10.0.0.1/24"), ...runtimeConfig("10.0.0.2", "10.0.0.1") },
      "IP=10.0.0.1",
      ["10.0.0.1", "10.0.0.2"],
    ],
  ];
  await eachRow(
    t,
    rows,
    ([, config, cniArgs, want]) =>
      assertEquals(requestedIps(config, cniArgs), want),
  );
});

testRows("requestedIpsOf() names CNI_ARGS in its errors", [
  [
    "IP=10.1.2.300",
    'CNI_ARGS: error parsing value of pair "IP=10.1.2.300"',
    "invalid IP address: 10.1.2.300",
  ],
  [
    "IP=10.1.2.3,",
    'CNI_ARGS: error parsing value of pair "IP=10.1.2.3,"',
    "invalid IP address: ",
  ],
  [
    "IP=10.1.2.3/33",
    'CNI_ARGS: error parsing value of pair "IP=10.1.2.3/33"',
    "invalid CIDR address: 10.1.2.3/33",
  ],
  ["IP=10.1.2.3;", 'CNI_ARGS: invalid pair ""', ""],
  ["IP=10.1.2.3;X=y", 'CNI_ARGS: unknown args ["X=y"]', ""],
  ["ip=10.1.2.3", 'CNI_ARGS: unknown args ["ip=10.1.2.3"]', ""],
  ["IgnoreUnknown=0;X=y", 'CNI_ARGS: unknown args ["X=y"]', ""],
], ([cniArgs, message, details]: [string, string, string]) => {
  const error = assertThrows(() => requestedIps({}, cniArgs), CniError);
  assertEquals(error.message, message);
  assertEquals(error.details, details);
  assertEquals(error.code, ErrorCode.InvalidEnvironment);
});
