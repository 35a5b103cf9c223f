import { assertEquals } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { needsRuleTools } from "../tests/_harness/rules.ts";
import { eachRow } from "../tests/_harness/table.ts";
import { inNetns, type NetNs } from "./netns.ts";
import { type Removals, RemovalWatch } from "./removals.ts";
import { Rtnl } from "./rtnl/mod.ts";

const SET_UP = `
  ip link add br0 type bridge
  ip link set br0 up
  ip link add v0 type veth peer name v1
  ip link set v0 master br0 up
  tc qdisc add dev v0 root tbf rate 1mbit burst 10k limit 10k
  tc qdisc add dev v0 ingress
  ip link add br1 type bridge
  ip link add w0 type veth peer name w1
  ip addr add 10.1.0.1/24 dev br0
  ip route add 10.9.0.0/24 via 10.1.0.9 dev br0
  sysctl -qw net.ipv4.ip_forward=1
  nft add table inet t
  nft add chain inet t c
  nft add rule inet t c accept
  nft add table inet other
  nft add chain inet t other
  nft add rule inet t other accept
  nft add set inet t others '{ type ipv4_addr; elements = { 10.0.0.1 } }'`;

/** What is heard after a script: a word for each kind, and the links. */
const ROWS: readonly [script: string, heard: readonly string[]][] = [
  ["nft flush ruleset", ["rules"]],
  ["nft flush chain inet t c", ["rules"]],
  ["nft add table inet firewalld", ["rules"]],
  ["nft add table inet other2", []],
  ["nft delete table inet other", []],
  ["nft flush chain inet t other", []],
  ["nft delete chain inet t other", []],
  ["nft delete element inet t others { 10.0.0.1 }", []],
  ["nft delete set inet t others", []],
  ["nft flush chain inet t other; nft flush chain inet t c", ["rules"]],
  ["nft delete table inet t", ["rules"]],
  ["nft add rule inet t c drop; ip route del 10.9.0.0/24", ["br0"]],
  ["ip route add 10.8.0.0/24 dev br0; ip addr del 10.1.0.1/24 dev br0", [
    "br0",
  ]],
  ["ip link set v0 nomaster", ["v0"]],
  ["ip link set br0 down", ["br0"]],
  ["tc qdisc del dev v0 root", ["v0"]],
  ["tc qdisc del dev v0 ingress", ["v0"]],
  ["ip link del br1", ["deleted br1"]],
  ["ip link del w0", []],
  ["sysctl -qw net.ipv4.ip_forward=0", ["forwarding"]],
  ["sysctl -qw net.ipv4.conf.br0.forwarding=0", ["br0"]],
  ["cd /proc/sys/net/ipv6/conf/br0; echo 1 >forwarding", []],
  ["cd /proc/sys/net/ipv6/conf/br0; echo 1 >proxy_ndp", []],
  [
    "cd /proc/sys/net/ipv6/conf/br0; echo 1 >proxy_ndp; echo 0 >proxy_ndp",
    ["br0"],
  ],
  ["ip link add br2 type bridge", []],
  ["ip link add w2 type veth peer name w3; ip link set w2 up", []],
  ["ip link set br0 mtu 1400", []],
];

/** Says in words what was removed. */
function describe(host: NetNs, removals: Removals | undefined): string[] {
  using rtnl = Rtnl.open(host.path);
  const { areRules, isForwarding, ifindexes = [], deleted = [] } = removals ??
    {};
  return [
    ...areRules ? ["rules"] : [],
    ...isForwarding ? ["forwarding"] : [],
    ...[...ifindexes].map((index) => rtnl.link.find(index)?.name ?? "gone"),
    ...[...deleted].map((name) => `deleted ${name}`),
  ];
}

rootTest("RemovalWatch hears what is removed", needsRuleTools, async (t) => {
  await eachRow(t, ROWS, ([script, expected]) => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    runIn(host, "sh", "-ec", SET_UP);
    using watch = RemovalWatch.open(host, {
      isIgnored: () => false,
      isTheirs: (table, part) => !/^other/.test(part ?? table),
    });
    assertEquals(watch.take(), undefined);
    runIn(host, "sh", "-ec", script);
    assertEquals(describe(host, watch.take()), expected);
    assertEquals(watch.take(), undefined);
  });
});

rootTest(
  "RemovalWatch ignores rules that some programs remove",
  needsRuleTools,
  async () => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    runIn(host, "sh", "-ec", SET_UP);
    const asked: [string, number][] = [];
    using watch = RemovalWatch.open(host, {
      isIgnored: (...one) => {
        asked.push(one);
        return true;
      },
      isTheirs: () => true,
    });
    const args = "flush chain inet t c".split(" ");
    const nft = inNetns(host, () => new Deno.Command("nft", { args }).spawn());
    assertEquals((await nft.status).success, true);
    assertEquals([watch.take(), asked], [undefined, [["nft", nft.pid]]]);
  },
);
