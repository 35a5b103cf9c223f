/**
 * bandwidth, as the Go plugin's own tests have it, at each version.
 *
 * Source: containernetworking/plugins
 * plugins/meta/bandwidth/bandwidth_linux_test.go, bandwidth_config_test.go.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { isAtLeast, listVersionsFrom } from "../../cni/version.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { eventually } from "../_harness/eventually.ts";
import {
  type Container,
  measureFlows,
  measureUndisturbed,
} from "../../plugins/bandwidth/testing/flows.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  LimitedPair,
  LIMITS,
  tcJson,
} from "../../plugins/bandwidth/testing/limited_pair.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../_harness/table.ts";

/** Of network "cni-plugin-bandwidth-test" and container "dummy". */
const IFB = "bwpa8eda89404b7";
const HOST_END = "host-veth";
const VERSIONS = listVersionsFrom("0.3.0");

function assertSuccess({ exitCode, stdout }: CallOutput): void {
  assertEquals(exitCode, 0, stdout);
}

async function assertRefused(
  pair: LimitedPair,
  keys: object,
  text: string,
): Promise<void> {
  const { exitCode, json } = await pair.run("ADD", keys);
  assertEquals([exitCode, json.code], [1, 7]);
  assertStringIncludes(json.msg, text);
}

/** Lists a link's qdiscs as `kind`, or `tbf RATE` in bytes per second. */
function qdiscsOf({ hosts }: LimitedPair, dev: string): string[] {
  return tcJson(hosts.host, "qdisc", "show", "dev", dev).map((
    { kind, options },
  ) => kind === "tbf" ? `tbf ${options.rate}` : kind);
}

/** Returns what `tc` says of a token bucket's limit, in bytes. */
function limitOf({ hosts }: LimitedPair, dev: string): number {
  const [{ options }] = tcJson(hosts.host, "qdisc", "show", "dev", dev);
  return options.burst + Math.round(options.rate * options.lat / 1e6);
}

/** Limits both directions, and asserts what the Go plugin's first test does. */
async function assertBothLimited(
  cniVersion: string,
  keys: object,
): Promise<void> {
  using hosts = TestHosts.create();
  const pair = new LimitedPair(hosts, { cniVersion, mtu: 1024 });
  const { interfaces } = await pair.add(keys);
  assertEquals(interfaces.length, 3);
  assertEquals([interfaces[2].name, interfaces[2].sandbox], [IFB, undefined]);
  const [{ mtu, ifindex }] = ipJson(hosts.host, "link", "show", IFB);
  assertEquals(mtu, 1024);
  assertEquals(qdiscsOf(pair, IFB), ["tbf 2"]);
  assertEquals(qdiscsOf(pair, HOST_END), ["tbf 1", "ingress"]);
  assertEquals([limitOf(pair, IFB), limitOf(pair, HOST_END)], [1, 1]);

  const filter = ["filter", "show", "dev", HOST_END, "parent", "ffff:"];
  const filters = tcJson(hosts.host, ...filter)
    .filter(({ options }) => options?.match !== undefined);
  assertEquals(filters.length, 1);
  const { kind, options } = filters[0];
  assertEquals([kind, options.actions[0].kind], ["u32", "mirred"]);
  const [{ ifname }] = ipJson(hosts.host, "link")
    .filter((link: { ifindex: number }) => link.ifindex === ifindex);
  assertEquals(options.actions[0].to_dev, ifname);
}

/** Attaches a container by ptp with an MTU for small packets, and limits it if told to. */
async function attachByPtp(
  hosts: TestHosts,
  cniVersion: string,
  limits: object,
): Promise<Container & { check: () => Promise<CallOutput> }> {
  const sandbox = hosts.addNetns();
  const containerId = `c${hosts.leases().length}`;
  const options = { sandbox, containerId };
  const config = {
    cniVersion,
    name: "net1",
    mtu: 512,
    ipam: hosts.hostLocal("10.1.2.0/24"),
  };
  const added = await hosts.run("ptp", "ADD", config, options);
  assertSuccess(added);
  const chained = { ...config, ...limits, prevResult: added.json };
  const limited = await hosts.run("bandwidth", "ADD", chained, options);
  assertSuccess(limited);
  const [address = ""] = added.json.ips[0].address.split("/");
  const withResult = { ...chained, prevResult: limited.json };
  const check = (): Promise<CallOutput> =>
    hosts.run("bandwidth", "CHECK", withResult, options);
  return { sandbox, address, check };
}

const runtimeConfig = (bandWidth: object): object => ({
  runtimeConfig: { bandWidth },
});

/** The outcome for a limited container. */
interface Slow {
  readonly checked: CallOutput;
  readonly rate: number | undefined;
}

/** Containers behind ptp: one that is not limited, and one of each version that is. */
interface BehindPtp {
  readonly fastRate: number;
  readonly slow: ReadonlyMap<string, Slow>;
}

/**
 * Of all versions together: what a bucket has dropped TCP sends again only
 * seconds later.
 */
let behindPtp: Promise<BehindPtp> | undefined;

async function measureBehindPtp(): Promise<BehindPtp> {
  using hosts = TestHosts.create();
  const limits = runtimeConfig({
    ingressRate: 8000,
    ingressBurst: 16_000,
    egressRate: 8000,
    egressBurst: 16_000,
  });
  const containers = [await attachByPtp(hosts, "1.1.0", {})];
  const checked = [];
  for (const cniVersion of VERSIONS) {
    const slow = await attachByPtp(hosts, cniVersion, limits);
    containers.push(slow);
    checked.push({ cniVersion, checked: await slow.check() });
  }
  const how = { to: "10.1.2.1", warmMs: 0, windowMs: 300 };
  const [fastRate = 0, ...rates] = await measureFlows(
    hosts.host,
    containers,
    "ingress",
    how,
  );
  const slow = checked.map(({ cniVersion, checked }, at) =>
    [cniVersion, { checked, rate: rates[at] }] as const
  );
  return { fastRate, slow: new Map(slow) };
}

const EACH: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "BW-1 both directions are limited": (cniVersion) => () =>
    assertBothLimited(cniVersion, LIMITS),

  "BW-2 no limit towards the container": (cniVersion) => async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts, { cniVersion });
    const limits = { ...LIMITS, ingressRate: 0, ingressBurst: 0 };
    const { interfaces } = await pair.add(limits);
    assertEquals(interfaces[2].name, IFB);
    assertEquals(qdiscsOf(pair, HOST_END), ["noqueue", "ingress"]);
  },

  "BW-3 no limit out of the container": (cniVersion) => async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts, { cniVersion });
    const limits = {
      ingressRate: 8000,
      ingressBurst: 80,
      egressRate: 0,
      egressBurst: 0,
    };
    const { interfaces } = await pair.add(limits);
    assertEquals(interfaces.length, 2);
    assertEquals(ipJson(hosts.host, "link").length, 2);
    assertEquals(qdiscsOf(pair, HOST_END), ["tbf 1000"]);
    assertEquals(limitOf(pair, HOST_END), 35);
  },

  "BW-4 a burst without a rate is refused": (cniVersion) => async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts, { cniVersion });
    const limits = { ...LIMITS, ingressRate: 0, ingressBurst: 123 };
    await assertRefused(
      pair,
      limits,
      "if burst is set, rate must also be set",
    );
  },

  "BW-5 limits by runtimeConfig": (cniVersion) => () =>
    assertBothLimited(cniVersion, runtimeConfig(LIMITS)),

  "BW-6 the configuration's limits win, though they are wrong":
    (cniVersion) => async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts, { cniVersion });
      const limits = { ingressRate: 0, ingressBurst: 123 };
      await assertRefused(
        pair,
        { ...limits, ...runtimeConfig(LIMITS) },
        "if burst is set, rate must also be set",
      );
    },

  "BW-7 DEL deletes the IFB": (cniVersion) => async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts, { cniVersion });
    const before = pair.limits();
    const prevResult = await pair.add(LIMITS);
    assertSuccess(await pair.run("DEL", { ...LIMITS, prevResult }));
    assertEquals(pair.limits(), before);
  },

  "BW-8 the container's peer is found among several host interfaces":
    (cniVersion) => async () => {
      using hosts = TestHosts.create();
      const other = new LimitedPair(hosts, {
        hostEnd: "other0",
        ifName: "other1",
      });
      const pair = new LimitedPair(hosts, { cniVersion });
      const { prevResult } = pair;
      const { interfaces } = await pair.add({
        ...LIMITS,
        prevResult: {
          ...prevResult,
          interfaces: [
            { name: "lo" },
            ...other.prevResult.interfaces.slice(0, 1),
            ...prevResult.interfaces,
          ],
        },
      });
      assertEquals([interfaces.length, interfaces[4].name], [5, IFB]);
      assertEquals(qdiscsOf(other, "other0"), ["noqueue"]);
      assertEquals(qdiscsOf(pair, HOST_END), ["tbf 1", "ingress"]);
    },

  "BW-9 a bridge in the container is refused": (cniVersion) => async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts, { cniVersion });
    const ifName = "bridge0";
    runIn(hosts.sandbox, "ip", "link", "add", ifName, "type", "bridge");
    const { json } = await pair.run("ADD", LIMITS, { ifName });
    const text = "container interface bridge0 has no veth peer: ";
    assertStringIncludes(json.msg, text);
  },

  "BW-10 a result without interfaces is refused": (cniVersion) => async () => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts, { cniVersion });
    const prevResult = { ...pair.prevResult, interfaces: [] };
    const keys = { ...LIMITS, prevResult };
    await assertRefused(pair, keys, "no interfaces provided");
  },

  "BW-11 a result without the host's end is refused":
    (cniVersion) => async () => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts, { cniVersion });
      const [, end] = pair.prevResult.interfaces;
      const interfaces = [{ name: "other" }, end];
      const prevResult = { ...pair.prevResult, interfaces };
      await assertRefused(
        pair,
        { ...LIMITS, prevResult },
        "no veth peer of container interface found in host ns",
      );
    },

  "BW-12 traffic behind ptp is slowed down": (cniVersion) => async () => {
    const { fastRate, slow } = await (behindPtp ??= measureBehindPtp());
    const measured = slow.get(cniVersion);
    assert(measured?.rate !== undefined, `${cniVersion} was not measured`);
    const { rate, checked } = measured;
    if (isAtLeast(cniVersion, "0.4.0")) assertSuccess(checked);
    else assertEquals(checked.json.code, 1);
    const secondsOf = (rate: number): number => 25_000 * 8 / rate;
    assert(
      secondsOf(rate) > secondsOf(fastRate) + 1,
      `${rate} and ${fastRate} bit/s`,
    );
  },
};

const PAIRS: readonly [number, number, string | undefined][] = [
  [1, 2 ** 35 - 16, undefined],
  [1, 2 ** 35, "burst cannot be more than 4GB"],
  [0, 1, "if burst is set, rate must also be set"],
  [1, 0, undefined],
  [0, 0, undefined],
];

/** Rows that do not depend on the version. */
const ONCE: Readonly<Record<string, Row>> = {
  "BW-13 rates and bursts that are taken, and that are not": async (t) => {
    await eachRow(t, PAIRS, async ([rate, burst, refusal]) => {
      using hosts = TestHosts.create();
      const pair = new LimitedPair(hosts);
      for (const direction of ["ingress", "egress"]) {
        const limits = {
          [`${direction}Rate`]: rate,
          [`${direction}Burst`]: burst,
        };
        if (refusal === undefined) await pair.add(limits);
        else await assertRefused(pair, limits, refusal);
      }
    }, ([rate, burst]) => `${rate} bit/s, ${burst} bits`);
  },

  "BW-14 limits on one network leave others alone": async () => {
    using hosts = TestHosts.create();
    const limit = 20e6;
    const limits = {
      ingressRate: limit,
      ingressBurst: limit / 10,
      egressRate: limit,
      egressBurst: limit / 10,
    };
    const networks = [["eth0", "10.1.1", limits], [
      "eth1",
      "10.1.2",
      {},
    ]] as const;
    for (const [ifName, prefix, extras] of networks) {
      const config = {
        cniVersion: "1.1.0",
        name: `net-${ifName}`,
        bridge: `br-${ifName}`,
        isGateway: true,
        ipam: hosts.hostLocal(`${prefix}.0/24`),
      };
      const added = await hosts.run("bridge", "ADD", config, { ifName });
      assertSuccess(added);
      const chained = { ...config, ...extras, prevResult: added.json };
      const call = { ifName };
      assertSuccess(await hosts.run("bandwidth", "ADD", chained, call));
    }
    const { host, sandbox } = hosts;
    for (const direction of ["ingress", "egress"] as const) {
      const rateOf = async (
        prefix: string,
        times: { warmMs: number; windowMs: number },
      ): Promise<number> => {
        const container = { sandbox, address: `${prefix}.2` };
        const how = { to: `${prefix}.1`, ...times };
        const rates = await measureFlows(host, [container], direction, how);
        return rates[0] ?? 0;
      };
      const [limited = 0] = await measureUndisturbed(
        async () => [await rateOf("10.1.1", { warmMs: 500, windowMs: 1000 })],
        [limit],
        0.1,
      );
      assert(Math.abs(limited / limit - 1) < 0.1, `${direction} ${limited}`);
      // A busy machine is slower for a while. A limit would be there once its
      // burst is over, in a millisecond, and stay.
      let free = 0;
      await eventually(
        `${direction} is not limited`,
        async () => {
          free = await rateOf("10.1.2", { warmMs: 100, windowMs: 250 });
          return free > 3 * limit;
        },
        () => `${free} bit/s`,
      );
    }
  },
};

for (const cniVersion of VERSIONS) {
  const rows = Object.entries(EACH).map(([name, row]) => [
    `${name}, ${cniVersion}`,
    row(cniVersion),
  ]);
  conformance("bandwidth", Object.fromEntries(rows), needsRoot);
}
conformance("bandwidth", ONCE, needsRoot);
