/**
 * static, as the Go plugin's own tests have it, at each version.
 *
 * Source: containernetworking/plugins plugins/ipam/static/static_test.go.
 */

import { assertEquals } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { conformance, type Row } from "../../tests/_harness/conformance.ts";
import { assertFailure, SILENT } from "../../tests/_harness/recorder.ts";
import { resultOf, runStatic, staticConfig } from "./testing.ts";

const IPV4 = { address: "10.10.0.1/24", gateway: "10.10.0.254" };
const IPV6 = { address: "3ffe:ffff:0:1ff::1/64", gateway: "3ffe:ffff::1" };
const DNS = {
  nameservers: ["8.8.8.8"],
  domain: "example.com",
  search: ["example.com"],
  options: ["ndots:5"],
};
/** The last destination has host bits, which a result keeps. */
const ROUTES = [
  { dst: "0.0.0.0/0" },
  { dst: "192.168.0.0/16", gw: "10.10.5.1" },
  { dst: "3ffe:ffff:0:1ff::1/64" },
];

/** The input of ADD in a row, and its result. */
interface Scenario {
  readonly ipam: JsonObject | undefined;
  readonly others?: JsonObject;
  readonly env?: Environment;
  readonly ips: Parameters<typeof resultOf>[1];
}

/** The error of a version that supports a single address of each family. */
function oneForEach(version: string): { code: number; msg: string } {
  return {
    code: 7,
    msg: `CNI version ${version} does not support more than 1 address per ` +
      "family",
  };
}

/** From STATUS to DEL, as far as the version has the commands. */
function goesThrough(version: string, scenario: Scenario): Row {
  return async () => {
    const { ipam = {}, env, ips } = scenario;
    const others = { ...scenario.others, cniVersion: version };
    const config = staticConfig(ipam, others);
    const call = (command: string, more = {}): ReturnType<typeof runStatic> =>
      runStatic(command, { ...config, ...more }, env);

    if (isAtLeast(version, "1.1.0")) {
      assertEquals(await call("STATUS"), SILENT);
    }
    const added = await call("ADD");
    assertEquals(added.exitCode, 0, added.stdout);
    assertEquals(added.json, resultOf(version, ips, ipam));
    const checked = await call("CHECK", { prevResult: added.json });
    if (isAtLeast(version, "0.4.0")) assertEquals(checked, SILENT);
    else {
      const msg = "config version does not allow CHECK";
      assertFailure(checked, { code: 1, msg });
    }
    assertEquals(await call("DEL"), SILENT);
  };
}

/** ADD fails, and DEL does not. */
function isRefused(
  version: string,
  { ipam, others, env }: Omit<Scenario, "ips">,
  failure: { code: number; msg: string },
): Row {
  return async () => {
    const config = staticConfig(ipam, { ...others, cniVersion: version });
    assertFailure(await runStatic("ADD", config, env), failure);
    assertEquals((await runStatic("DEL", config, env)).exitCode, 0);
  };
}

const RUNTIME_ROUTES = [
  { dst: "0.0.0.0/0", gw: "10.10.0.254" },
  { dst: "3ffe:ffff:0:1ff::1/64", gw: "3ffe:ffff::1" },
];
const REQUESTED = ["10.10.0.1/24", "3ffe:ffff:0:01ff::1/64"];
const WITHOUT_GATEWAYS = REQUESTED.map((ip) => ({
  address: ip.replace(":01ff", ":1ff"),
}));

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "ST-1: addresses, routes and dns of the configuration": {
    ipam: {
      addresses: [IPV4, {
        address: "3ffe:ffff:0:01ff::1/64",
        gateway: "3ffe:ffff:0::1",
      }],
      routes: ROUTES,
      dns: DNS,
    },
    ips: [IPV4, IPV6],
  },
  "ST-2: routes to one destination stay, and in order": {
    ipam: {
      addresses: [IPV4],
      routes: [
        { dst: "192.168.0.0/16", gw: "10.10.5.2" },
        { dst: "192.168.0.0/16", gw: "10.10.5.1" },
        { dst: "192.168.0.0/16", gw: "10.10.5.3" },
      ],
    },
    ips: [IPV4],
  },
  "ST-4: an address and its gateway by CNI_ARGS": {
    ipam: { routes: [{ dst: "0.0.0.0/0" }], dns: DNS },
    env: { CNI_ARGS: "IP=10.10.0.1/24;GATEWAY=10.10.0.254" },
    ips: [IPV4],
  },
  "ST-6: addresses by runtimeConfig, its name in any case": {
    ipam: { routes: RUNTIME_ROUTES, dns: DNS },
    others: { capabilities: { ips: true }, RuntimeConfig: { ips: REQUESTED } },
    ips: WITHOUT_GATEWAYS,
  },
  "ST-7: addresses by args": {
    ipam: { routes: RUNTIME_ROUTES, dns: DNS },
    others: { args: { cni: { ips: REQUESTED } } },
    ips: WITHOUT_GATEWAYS,
  },
  "ST-8: of all three, runtimeConfig wins": {
    ipam: { routes: RUNTIME_ROUTES, dns: DNS },
    others: {
      RuntimeConfig: { ips: REQUESTED },
      args: { cni: { ips: ["10.10.0.2/24", "3ffe:ffff:0:01ff::2/64"] } },
    },
    env: { CNI_ARGS: "IP=10.10.0.3/24,11.11.0.3/24;GATEWAY=10.10.0.254" },
    ips: WITHOUT_GATEWAYS,
  },
};

const TWO_BY_CNI_ARGS: Scenario = {
  ipam: { routes: [{ dst: "0.0.0.0/0" }] },
  env: { CNI_ARGS: "IP=10.10.0.1/24,11.11.0.1/24;GATEWAY=10.10.0.254" },
  ips: [IPV4, { address: "11.11.0.1/24" }],
};

/** How each source is refused that has an address without a prefix length. */
const NO_CIDR: readonly [
  source: string,
  scenario: Omit<Scenario, "ips">,
  failure: { code: number; msg: string },
][] = [
  [
    "the configuration",
    { ipam: { addresses: [{ address: "10.10.0.1" }] } },
    {
      code: 7,
      msg: "the 'address' field is expected to be in CIDR notation, " +
        "got: '10.10.0.1'",
    },
  ],
  [
    "CNI_ARGS",
    { ipam: {}, env: { CNI_ARGS: "IP=10.10.0.1" } },
    {
      code: 4,
      msg: "the 'ip' field is expected to be in CIDR notation, " +
        "got: '10.10.0.1'",
    },
  ],
  [
    "args",
    { ipam: {}, others: { args: { cni: { ips: ["10.10.0.1"] } } } },
    {
      code: 7,
      msg: "an entry in the 'ips' field is NOT in CIDR notation, " +
        "got: '10.10.0.1'",
    },
  ],
  [
    "runtimeConfig",
    { ipam: {}, others: { runtimeConfig: { ips: ["10.10.0.1"] } } },
    {
      code: 7,
      msg: "an entry in the 'ips' field is NOT in CIDR notation, " +
        "got: '10.10.0.1'",
    },
  ],
];

const NO_IPAM = { code: 7, msg: "IPAM config missing 'ipam' key" };

function rowsOf(version: string): Record<string, Row> {
  const rows = Object.entries(SCENARIOS).map(([name, scenario]) =>
    [name, goesThrough(version, scenario)] as const
  );
  const refused = NO_CIDR.map(([source, scenario, failure]) =>
    [
      `ST-10: an address without prefix length by ${source}`,
      isRefused(version, scenario, failure),
    ] as const
  );
  return {
    ...Object.fromEntries(rows),
    "ST-3: DEL of an unknown container": async () => {
      const config = staticConfig({ addresses: [IPV4] }, {
        cniVersion: version,
      });
      const env = { CNI_CONTAINERID: "unknown", CNI_NETNS: "" };
      assertEquals(await runStatic("DEL", config, env), SILENT);
    },
    "ST-5: several addresses by CNI_ARGS, a gateway for its subnet alone":
      isAtLeast(version, "0.3.0")
        ? goesThrough(version, TWO_BY_CNI_ARGS)
        : isRefused(version, TWO_BY_CNI_ARGS, oneForEach(version)),
    "ST-9: no ipam, with CNI_ARGS": isRefused(
      version,
      {
        ipam: undefined,
        env: { CNI_ARGS: "IP=10.10.0.1/24;GATEWAY=10.10.0.254" },
      },
      NO_IPAM,
    ),
    "ST-9: no ipam, with runtimeConfig": isRefused(
      version,
      { ipam: undefined, others: { runtimeConfig: { ips: ["10.10.0.1/24"] } } },
      NO_IPAM,
    ),
    ...Object.fromEntries(refused),
  };
}

for (const version of SPEC_VERSIONS) {
  const rows = Object.entries(rowsOf(version));
  conformance(
    "static",
    Object.fromEntries(
      rows.map(([name, row]) => [`${name} (${version})`, row]),
    ),
  );
}
