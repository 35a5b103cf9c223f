/**
 * bandwidth  compared with the Go plugin: what each leaves in the host on the
 * same configuration, and one taking down or checking what the other has put
 * up. The differences that are meant are listed here, and nowhere else is a
 * difference allowed.
 */

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  LimitedPair,
  LIMITS,
  type RunPlugin,
  tcJson,
} from "./testing/limited_pair.ts";
import {
  callAs,
  listPeers,
  nameOf,
  normaliseResult,
  testLeavesTheSame,
  type Who,
} from "../../tests/_harness/parity.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const KUBELET_BURST = 2 ** 31 - 1;

const runAs = (who: Who): RunPlugin => (hosts, command, config, options) =>
  callAs(who, hosts, { type: "bandwidth", command, config }, options);

/** Limits in both directions. */
function both(rate: number, burst: number): Record<string, number> {
  return {
    ingressRate: rate,
    ingressBurst: burst,
    egressRate: rate * 2,
    egressBurst: burst,
  };
}

const ROWS: Readonly<Record<string, object>> = {
  "nothing": {},
  "zeros": both(0, 0),
  "the least": LIMITS,
  "towards the container": { ingressRate: 8000, ingressBurst: 80 },
  "out of the container": { egressRate: 8000, egressBurst: 80 },
  "the README's": both(123, 456),
  "1 Mbit/s": both(1e6, 1e6),
  "10 Mbit/s, one second": both(10e6, 10e6),
  "100 Mbit/s": both(100e6, 1e6),
  "1 Gbit/s": both(1e9, 100e6),
  "100 Gbit/s, which have 64 bits": both(100e9, 1e9),
  "kubelet's burst": both(10e6, KUBELET_BURST),
  "kubelet's burst, with rounding": both(100e6, KUBELET_BURST),
  "kubelet's burst, for which ticks are too few": both(1e6, KUBELET_BURST),
  "numbers that divide badly": both(33_333_333, 7_654_321),
  "more that do": both(3e6, 1e6),
  "the runtime's": { runtimeConfig: { bandwidth: both(1e6, 1e6) } },
  "keys in another case": { RuntimeConfig: { bandWidth: both(1e6, 1e6) } },
  "both": { ...LIMITS, runtimeConfig: { bandwidth: both(1e6, 1e6) } },
  "the configuration's zeros": {
    ingressRate: 0,
    runtimeConfig: { bandwidth: both(1e6, 1e6) },
  },
};

/** What a plugin did, without what differs from one run to the next. */
async function observe(
  run: RunPlugin,
  keys: object,
  cniVersion: string,
): Promise<unknown> {
  using hosts = TestHosts.create();
  const pair = new LimitedPair(hosts, { cniVersion, mtu: 1400 });
  const result = await pair.add(keys, run);
  const links = ipJson(hosts.host, "link");
  return {
    result: normaliseResult(JSON.stringify(result), hosts),
    links: links.map(describeLink),
    qdiscs: tcJson(hosts.host, "qdisc", "show"),
    filters: tcJson(
      hosts.host,
      "filter",
      "show",
      "dev",
      pair.hostEnd,
      "ingress",
    )
      .map(withoutSecondAction),
  };
}

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
function describeLink(link: any): unknown {
  const { ifname, mtu, txqlen, flags, qdisc, linkinfo } = link;
  return { ifname, mtu, txqlen, flags: flags.sort(), qdisc, linkinfo };
}

/**
 * A difference that is meant: the Go plugin has every packet redirected twice,
 * of which the second time never comes.
 */
// deno-lint-ignore no-explicit-any -- as above
function withoutSecondAction(filter: any): unknown {
  const actions = filter.options?.actions?.slice(0, 1);
  return { ...filter, options: { ...filter.options, actions } };
}

function assertSuccess({ exitCode, stdout }: CallOutput): void {
  assertEquals([exitCode, stdout], [0, ""]);
}

for (const peer of listPeers("bandwidth")) {
  for (const [name, keys] of Object.entries(ROWS)) {
    testLeavesTheSame(
      peer,
      ["bandwidth", name],
      (who) => observe(runAs(who), keys, peer.cniVersion),
    );
  }

  for (const cniVersion of ["0.3.0", "0.3.1", "0.4.0"]) {
    testLeavesTheSame(
      peer,
      ["bandwidth", cniVersion],
      (who) => observe(runAs(who), LIMITS, cniVersion),
    );
  }

  for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
    rootTest(
      `bandwidth: what is added by ${nameOf(adder)} is checked and deleted by ${
        nameOf(other)
      }`,
      async (t) => {
        await eachRow(t, Object.entries(ROWS), async ([name, keys]) => {
          using hosts = TestHosts.create();
          const pair = new LimitedPair(hosts, {
            cniVersion: peer.cniVersion,
          });
          const before = pair.limits();
          const prevResult = await pair.add(keys, runAs(adder));
          const all = { ...keys, prevResult };
          // Without limits the Go plugin's CHECK ends in a panic.
          if (name !== "nothing") {
            assertSuccess(await pair.run("CHECK", all, {}, runAs(other)));
          }
          assertSuccess(await pair.run("DEL", all, {}, runAs(other)));
          const after = pair.limits();
          assertEquals(after.links, before.links);
          // The Go plugin leaves the host's end as it is.
          if (other === "ours") assertEquals(after, before);
        });
      },
    );
  }

  rootTest(
    `bandwidth refuses the same input as the Go plugin, with its messages (${peer.name})`,
    async (t) => {
      const rows: [name: string, keys: object, ifName?: string][] = [
        ["ingress without rate", { ingressBurst: 1 }],
        ["egress without rate", { egressBurst: 1 }],
        ["a burst of 4 GiB", { egressRate: 1, egressBurst: 2 ** 35 }],
        ["no prevResult", { ...LIMITS, prevResult: undefined }],
        ["no interfaces", { ...LIMITS, prevResult: { interfaces: [] } }],
        ["no host's end", {
          ...LIMITS,
          prevResult: { interfaces: [{ name: "other" }] },
        }],
        ["no veth", LIMITS, "bridge0"],
        ["no interface", LIMITS, "eth9"],
      ];
      await eachRow(t, rows, async ([, keys, ifName = "container-veth"]) => {
        using hosts = TestHosts.create();
        const pair = new LimitedPair(hosts, { cniVersion: peer.cniVersion });
        const link = ["link", "add", "bridge0", "type", "bridge"];
        runIn(hosts.sandbox, "ip", ...link);
        const texts: string[] = [];
        for (const run of [runAs("ours"), runAs(peer)]) {
          const { json } = await pair.run("ADD", keys, { ifName }, run);
          // The reason follows, in each one's own words.
          texts.push(json.msg.replace(/(has no veth peer): .*/, "$1"));
        }
        assertEquals(texts[0], texts[1]);
      });
    },
  );
}
