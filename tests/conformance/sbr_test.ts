/** Behaviour of sbr that runtimes rely on, in every version of the specification. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import { ETH0, NET1, TwoNetworks } from "../_harness/two_networks.ts";

type Keys = Readonly<Record<string, unknown>>;

/** The initial routes of each interface. */
const ETH0_ROUTES = [
  "default via 10.0.0.1 dev eth0",
  "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.2",
  "10.2.0.0/24 via 10.0.0.5 dev eth0",
];
const NET1_ROUTES = [
  "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
  "192.168.2.0/24 via 192.168.1.2 dev net1",
];
/** And where those of net1 are afterwards. */
const MOVED = [
  "192.168.1.0/24 dev net1 table 100 proto kernel scope link src 192.168.1.209",
  "192.168.2.0/24 via 192.168.1.2 dev net1 table 100",
];
const IPV6 = "2001:db8:1::209/64";
const IPV6_LINES = [
  "address add 2001:db8:1::209/64 dev net1 nodad",
  // To what the tests give as gateways.
  "route add fd00::/64 dev net1",
];

/** Runs ADD, and CHECK as far as the version has it. */
async function add(networks: TwoNetworks, keys: Keys): Promise<CallOutput> {
  const added = await networks.run("sbr", "ADD", keys);
  assertEquals([added.exitCode, added.stderr], [0, ""], added.stdout);
  const checked = await networks.run("sbr", "CHECK", keys);
  if (isAtLeast(String(keys["cniVersion"]), "0.4.0")) {
    assertEquals([checked.exitCode, checked.stdout], [0, ""], checked.stdout);
  } else {
    assertEquals(checked.json.msg, "config version does not allow CHECK");
  }
  return added;
}

function assertRoutes(
  networks: TwoNetworks,
  expected: readonly string[],
): void {
  assertEquals(networks.routes().sort(), [...expected].sort());
}

const RULE = "32765: from 192.168.1.209 lookup 100";

/** Rows for each version that has chains, by the version's place in their names. */
const EACH: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "SBR-1 the interface's routes move to table 100":
    (cniVersion) => async () => {
      using networks = new TwoNetworks();
      const prevResult = networks.result();
      const { json } = await add(networks, { cniVersion, prevResult });
      assertEquals(networks.rules(), [RULE]);
      const made = "default via 192.168.1.1 dev net1 table 100";
      assertRoutes(networks, [...ETH0_ROUTES, ...MOVED, made]);
      assertEquals(json.cniVersion, cniVersion);
      assertEquals(json.ips[0].address, "192.168.1.209/24");
      assertEquals(json.interfaces, prevResult["interfaces"]);
    },
  "SBR-2 DEL without prevResult removes the rule": (cniVersion) => async () => {
    using networks = new TwoNetworks();
    await add(networks, { cniVersion, prevResult: networks.result() });
    const deleted = await networks.run("sbr", "DEL", { cniVersion });
    assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
    assertEquals(networks.rules(), []);
    assertRoutes(networks, [...ETH0_ROUTES, ...NET1_ROUTES]);
  },
  "SBR-3 a default route that is there moves too": (cniVersion) => async () => {
    const [address = "", route = ""] = ETH0;
    using networks = new TwoNetworks([address, route, ...NET1]);
    networks.ip("route add default via 192.168.1.1");
    await add(networks, { cniVersion, prevResult: networks.result() });
    assertEquals(networks.rules(), [RULE]);
    assertRoutes(networks, [
      ...ETH0_ROUTES.slice(1),
      ...MOVED,
      "default via 192.168.1.1 dev net1 table 100",
    ]);
  },
  "SBR-4 each of several addresses has a table": (cniVersion) => async () => {
    using networks = new TwoNetworks();
    networks.ip("address add 192.168.101.209/24 dev net1");
    networks.ip("route add 172.16.0.0/12 dev net1 scope link");
    const prevResult = networks.result([
      { address: "192.168.1.209/24", gateway: "192.168.1.1", interface: 0 },
      // There is only one interface.
      { address: "192.168.101.209/24", gateway: "192.168.101.1", interface: 1 },
    ]);
    await add(networks, { cniVersion, prevResult });
    assertEquals(networks.rules(), [
      "32764: from 192.168.101.209 lookup 101",
      RULE,
    ]);
    assertRoutes(networks, [
      ...ETH0_ROUTES,
      ...MOVED,
      "192.168.101.0/24 dev net1 table 101 proto kernel scope link " +
      "src 192.168.101.209",
      "172.16.0.0/12 dev net1 table 100 scope link",
      "172.16.0.0/12 dev net1 table 101 scope link",
      "default via 192.168.1.1 dev net1 table 100",
      "default via 192.168.101.1 dev net1 table 101",
    ]);
  },
  "SBR-6 table: rules only, and routes stay": (cniVersion) => async () => {
    using networks = new TwoNetworks();
    const prevResult = networks.result([
      { address: "192.168.1.209/24", interface: 0 },
      { address: "192.168.101.209/24", interface: 0 },
    ]);
    await add(networks, { cniVersion, table: 5000, prevResult });
    assertEquals(networks.rules(), [
      "32764: from 192.168.101.209 lookup 5000",
      "32765: from 192.168.1.209 lookup 5000",
    ]);
    assertRoutes(networks, [...ETH0_ROUTES, ...NET1_ROUTES]);
  },
  "SBR-7 gateways goes before the address's gateway":
    (cniVersion) => async () => {
      using networks = new TwoNetworks();
      const gateways = ["192.168.1.254"];
      const prevResult = networks.result();
      await add(networks, { cniVersion, gateways, prevResult });
      assertEquals(networks.rules(), [RULE]);
      const made = "default via 192.168.1.254 dev net1 table 100";
      assertRoutes(networks, [...ETH0_ROUTES, ...MOVED, made]);
    },
  "SBR-8 gateways of IPv6": (cniVersion) => async () => {
    using networks = new TwoNetworks([...ETH0, ...IPV6_LINES]);
    const prevResult = networks.result([{ address: IPV6, interface: 0 }]);
    await add(networks, { cniVersion, gateways: ["fd00::1"], prevResult });
    assertEquals(networks.rules(), ["32765: from 2001:db8:1::209 lookup 100"]);
    assertRoutes(networks, [
      ...ETH0_ROUTES,
      "2001:db8:1::/64 dev net1 table 100 proto kernel metric 256",
      "fd00::/64 dev net1 table 100 metric 1024",
      "default via fd00::1 dev net1 table 100 metric 1024",
    ]);
  },
  "SBR-9 gateways of both families": (cniVersion) => async () => {
    using networks = new TwoNetworks([...ETH0, ...NET1, ...IPV6_LINES]);
    const prevResult = networks.result([
      { address: "192.168.1.209/24", gateway: "192.168.1.1", interface: 0 },
      { address: IPV6, interface: 0 },
    ]);
    const gateways = ["fd00::1", "192.168.1.254"];
    await add(networks, { cniVersion, gateways, prevResult });
    assertEquals(networks.rules(), [
      RULE,
      "32765: from 2001:db8:1::209 lookup 101",
    ]);
    assertRoutes(networks, [
      ...ETH0_ROUTES,
      ...MOVED,
      "default via 192.168.1.254 dev net1 table 100",
      "2001:db8:1::/64 dev net1 table 101 proto kernel metric 256",
      "fd00::/64 dev net1 table 101 metric 1024",
      "default via fd00::1 dev net1 table 101 metric 1024",
    ]);
  },
  "SBR-10 gateways of one family are refused": (cniVersion) => async () => {
    using networks = new TwoNetworks();
    const before = networks.state();
    const gateways = ["192.168.1.254", "192.168.1.253"];
    const prevResult = networks.result();
    const keys = { cniVersion, gateways, prevResult };
    const { json } = await networks.run("sbr", "ADD", keys);
    assertEquals(json.code, 7);
    assertStringIncludes(
      json.msg,
      "gateways list contains multiple IPv4 addresses: " +
        "192.168.1.254 and 192.168.1.253",
    );
    assertEquals(networks.state(), before);
  },
  "SBR-11 addSourceHints: the subnet stays in table main":
    (cniVersion) => async () => {
      using networks = new TwoNetworks();
      const keys = {
        cniVersion,
        addSourceHints: true,
        prevResult: networks.result(),
      };
      await add(networks, keys);
      assertEquals(networks.rules(), [RULE]);
      const [subnet = ""] = NET1_ROUTES;
      assertRoutes(networks, [
        ...ETH0_ROUTES,
        subnet,
        ...MOVED,
        "default via 192.168.1.1 dev net1 table 100",
      ]);
    },
};

/** Rows for versions that have no chains yet. */
const WITHOUT_CHAINS: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "SBR-5 without prevResult the error says that it is a chained plugin":
    (cniVersion) => async () => {
      using networks = new TwoNetworks();
      const before = networks.state();
      const keys = { cniVersion, anotherAwesomeArg: "foo" };
      const { json } = await networks.run("sbr", "ADD", keys);
      assertEquals(json.msg, "This plugin must be called as chained plugin");
      assertEquals(networks.state(), before);
    },
};

for (const cniVersion of SPEC_VERSIONS) {
  const rows = {
    ...WITHOUT_CHAINS,
    ...isAtLeast(cniVersion, "0.3.0") ? EACH : {},
  };
  const named = Object.entries(rows).map(([name, row]) => [
    `${name}, ${cniVersion}`,
    row(cniVersion),
  ]);
  conformance("sbr", Object.fromEntries(named), needsRoot);
}
