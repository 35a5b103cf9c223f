/** Behaviour of ptp that runtimes rely on, in every version of the specification. */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { canPing, ipJson, snapshot } from "../../testing/ip_json.ts";
import { needsInetRules, needsIptables } from "../_harness/rules.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";

type Config = Record<string, unknown>;

/** One attachment from STATUS to DEL, with what is asserted after ADD. */
interface Round {
  readonly cniVersion: string;
  readonly extras: Config;
  readonly subnets: readonly string[];
  readonly routes?: readonly unknown[];
  readonly ipam?: Config;
  readonly assertAdded: (
    result: CallOutput["json"],
    hosts: TestHosts,
  ) => void;
}

/** Runs STATUS, ADD, CHECK and DEL, as far as the version has them. */
async function roundTrip(round: Round): Promise<void> {
  const { cniVersion, extras, subnets, routes = [], assertAdded } = round;
  using hosts = TestHosts.create();
  const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
  const ipam = { ...hosts.hostLocal(...subnets), routes, ...round.ipam };
  const config = { cniVersion, name: "net1", type: "ptp", ipam, ...extras };
  const run = async (
    command: string,
    more: Config = {},
  ): Promise<CallOutput> => {
    const output = await hosts.run("ptp", command, { ...config, ...more });
    assertEquals(output.exitCode, 0, `${command}: ${output.stdout}`);
    return output;
  };
  if (isAtLeast(cniVersion, "1.1.0")) await run("STATUS");
  const { json } = await run("ADD");
  assertAdded(json, hosts);
  const withResult = { prevResult: json };
  if (isAtLeast(cniVersion, "0.4.0")) await run("CHECK", withResult);
  else await assertCheckIsRefused(hosts, { ...config, ...withResult });
  await run("DEL", withResult);
  assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
  assertEquals(hosts.leases(), []);
}

async function assertCheckIsRefused(
  hosts: TestHosts,
  config: Config,
): Promise<void> {
  const { json } = await hosts.run("ptp", "CHECK", config);
  assertEquals(
    [json.code, json.msg],
    [1, "config version does not allow CHECK"],
  );
}

const IPV4 = ["10.1.2.0/24"], DUAL = ["10.1.2.0/24", "2001:db8:1::/66"];
/** The host's addresses in DUAL. */
const GATEWAYS = ["10.1.2.1", "2001:db8:1::1"];
const DNS = {
  nameservers: ["10.1.2.3"],
  domain: "some.domain.test",
  search: ["search.test"],
  options: ["option1:foo"],
};

/** Rows for each version, by the version's place in their names. */
const EACH: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "PTP-2 and PTP-3 the result matches the links": (cniVersion) => () =>
    roundTrip({
      cniVersion,
      extras: {},
      subnets: DUAL,
      assertAdded: isAtLeast(cniVersion, "0.3.0")
        ? assertInterfaces
        : assertFamilies,
    }),
  "PTP-7 without dns in the configuration the IPAM plugin's counts":
    (cniVersion) => () => withResolvConf(cniVersion, {}, DNS),
  "PTP-8 any list in dns replaces all of the IPAM plugin's":
    (cniVersion) => async () => {
      const parts: readonly Config[] = [
        { nameservers: ["1.1.1.1"] },
        { domain: "a.test" },
        { search: ["b.test"] },
        { options: ["ndots:5"] },
      ];
      for (const dns of parts) await withResolvConf(cniVersion, { dns }, dns);
    },
  "PTP-9 an empty list in dns leaves none": (cniVersion) => () =>
    withResolvConf(cniVersion, { dns: { nameservers: [] } }, {}),
};

/** Rows for each version that masquerade by iptables. */
const EACH_BY_IPTABLES: Readonly<
  Record<string, (cniVersion: string) => Row>
> = {
  "PTP-4 masquerade by iptables": (cniVersion) => () =>
    roundTrip(masqueraded(cniVersion, "iptables")),
};

/** Rows for each version that masquerade by nftables, named or not. */
const EACH_MASQUERADED: Readonly<
  Record<string, (cniVersion: string) => Row>
> = {
  "PTP-1 IPv4 with mtu, dns and masquerade": (cniVersion) => () =>
    roundTrip({
      cniVersion,
      extras: { ipMasq: true, mtu: 5000, dns: DNS },
      subnets: IPV4,
      assertAdded(result, { sandbox }): void {
        assertEquals(ipJson(sandbox, "link", "show", "eth0")[0].mtu, 5000);
        assert(canPing(sandbox, "10.1.2.1"));
        assertEquals(result.dns, DNS);
      },
    }),
  "PTP-5 masquerade by nftables": (cniVersion) => () =>
    roundTrip(masqueraded(cniVersion, "nftables")),
  "PTP-6 dual stack with routes that inherit the gateway": (cniVersion) => () =>
    roundTrip({
      cniVersion,
      extras: { ipMasq: true },
      subnets: DUAL,
      routes: ["0.0.0.0/0", "192.168.0.0/16", "1.2.3.4/32"]
        .map((dst) => ({ dst })),
      assertAdded(_, { sandbox }): void {
        assert(canPing(sandbox, "10.1.2.1"));
        assert(canPing(sandbox, "2001:db8:1::1"));
        for (const dst of ["default", "192.168.0.0/16", "1.2.3.4"]) {
          const [route] = ipJson(sandbox, "route", "show", dst);
          assertEquals(route?.gateway, "10.1.2.1", dst);
        }
      },
    }),
};

function masqueraded(cniVersion: string, ipMasqBackend: string): Round {
  return {
    cniVersion,
    extras: { ipMasq: true, ipMasqBackend, mtu: 5000, dns: DNS },
    subnets: IPV4,
    assertAdded(_, { sandbox }): void {
      assert(canPing(sandbox, "10.1.2.1"));
    },
  };
}

function assertInterfaces(
  { interfaces, ips }: CallOutput["json"],
  { sandbox }: TestHosts,
): void {
  assertEquals(interfaces.length, 2);
  const [hostEnd, containerEnd] = interfaces;
  assertMatch(hostEnd.name, /^veth/);
  assertEquals(hostEnd.mac.length, 17);
  assertEquals(hostEnd.sandbox, undefined);
  const [{ address: mac }] = ipJson(sandbox, "link", "show", "eth0");
  assertEquals(containerEnd, { name: "eth0", mac, sandbox: sandbox.path });
  assertEquals(ips.map((ip: Config) => ip["interface"]), [1, 1]);
  assertEquals(ips.map((ip: Config) => ip["gateway"]), GATEWAYS);
}

function assertFamilies(
  { ip4, ip6 }: CallOutput["json"],
  { sandbox }: TestHosts,
): void {
  const present = ipJson(sandbox, "address", "show", "eth0")[0].addr_info
    .map(({ local, prefixlen }: Config) => `${local}/${prefixlen}`);
  assertEquals([ip4.gateway, ip6.gateway], GATEWAYS);
  for (const { ip, gateway } of [ip4, ip6]) {
    assert(present.includes(ip), ip);
    assert(canPing(sandbox, gateway), gateway);
  }
}

/** Runs a round whose IPAM plugin reads a resolv.conf. */
async function withResolvConf(
  cniVersion: string,
  extras: Config,
  dns: Config,
): Promise<void> {
  const resolvConf = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(
      resolvConf,
      "nameserver 10.1.2.3\ndomain some.domain.test\n" +
        "search search.test\noptions option1:foo\n",
    );
    await roundTrip({
      cniVersion,
      extras,
      subnets: IPV4,
      ipam: { resolvConf },
      assertAdded: (result) => assertEquals(result.dns ?? {}, dns),
    });
  } finally {
    await Deno.remove(resolvConf);
  }
}

/** Creates the rows of one version. */
function rowsFor(
  each: Readonly<Record<string, (cniVersion: string) => Row>>,
  cniVersion: string,
): Record<string, Row> {
  return Object.fromEntries(
    Object.entries(each).map(([name, row]) => [
      `${name}, ${cniVersion}`,
      row(cniVersion),
    ]),
  );
}

const needsInet = allOf(needsInetRules, needsRoot);
const needsTables = allOf(needsIptables(), needsRoot);

for (const cniVersion of SPEC_VERSIONS) {
  conformance("ptp", rowsFor(EACH, cniVersion), needsRoot);
  conformance("ptp", rowsFor(EACH_BY_IPTABLES, cniVersion), needsTables);
  conformance("ptp", rowsFor(EACH_MASQUERADED, cniVersion), needsInet);
}
