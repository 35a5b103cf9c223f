/**
 * Faults of packets that end on their way: rules of nftables, IPsec, routes, ARP.
 *
 * @module
 */

import { ifPossible } from "../../../../base/files/io.ts";
import { hasCommand } from "../../../../testing/capabilities.ts";
import { type Fault, inOther, ip, type Seed, tunnel } from "../fault.ts";

/** The port of the bridge. */
const PORT = "$(ip -o link show master lan0 | sed 's/^[0-9]*: //; s/@.*//')";

/** Adds a table of nftables. */
function table(
  family: string,
  content: string,
): Seed {
  return ip(
    `nft 'add table ${family} doctor { ${content} }'`,
    `nft delete table ${family} doctor || true`,
  );
}

/** A chain of filters at a hook, whose only rule is this one. */
function chain(
  hook: string,
  rule: string,
  policy = "accept",
): string {
  return `chain c { type filter hook ${hook} priority 10; policy ${policy}; ${rule}; };`;
}

/** A chain before connections are tracked, whose only rule is this one. */
function untracked(rule: string): string {
  return `chain c { type filter hook prerouting priority raw; ${rule}; };`;
}

/** Fills the table of tracked connections, whose size is the same for all namespaces. */
function fillConnections(most: number): string {
  return `perl -e 'for $i (0..${most}) { printf "-A -t 600 -u SEEN_REPLY,ASSURED ` +
    '-s 10.%d.%d.1 -d 10.0.0.9 -p udp --sport %d --dport 9\\n", ' +
    "$i >> 16, ($i >> 8) & 255, 1024 + ($i & 255) }' | conntrack -R - || true";
}

/** The size of the table, if filling it does not take long. */
const MOST_CONNECTIONS = ((): number | undefined => {
  const path = "/proc/sys/net/netfilter/nf_conntrack_max";
  const most = Number(ifPossible(() => Deno.readTextFileSync(path)));
  return hasCommand("conntrack") && most > 0 && most <= 300_000
    ? most
    : undefined;
})();

/** Faults of packets that end on their way: rules of nftables, IPsec, routes, ARP. */
export const PACKETS_FAULTS: readonly Fault[] = [
  {
    name: "a rule of prerouting that drops a subnet",
    checks: ["rule-drops"],
    message: /chain "inet raw pre" \(prerouting\) drops packets$/m,
    command: /^nft delete rule inet raw pre handle \d+$/,
    seed: ip(
      "nft 'table inet raw { chain pre { type filter hook prerouting priority -300; ip saddr 10.2.0.0/24 counter drop; }; }'",
      "nft delete table inet raw",
    ),
    follow: true,
  },
  {
    name: "a rule that drops what a bridge sends",
    checks: ["rule-drops"],
    message: /chain "ip fw g" \(forward\) drops packets$/m,
    seed: ip(
      "nft 'table ip fw { chain f { type filter hook forward priority 0; jump g; }; chain g { iifname \"lan0\" drop; }; }' 2>/dev/null || nft 'table ip fw { chain g { iifname \"lan0\" drop; }; chain f { type filter hook forward priority 0; jump g; }; }'",
      "nft delete table ip fw",
    ),
    follow: true,
  },
  {
    name: "a rule of iptables' raw table that drops a container",
    checks: ["rule-drops"],
    message: /chain "ip raw PREROUTING" \(prerouting\) drops packets$/m,
    seed: ip(
      "iptables-nft -t raw -A PREROUTING -s 10.1.0.2 -j DROP",
      "nft delete table ip raw",
    ),
    follow: true,
  },
  {
    name: "a rule of routing that stops a container's packets",
    checks: ["rule-stops"],
    message: /the routing rule 100 of the host stops packets from 10.2.0.0\/24/,
    command: /^ip rule del pref 100$/,
    seed: ip(
      "ip rule add from 10.2.0.0/24 pref 100 blackhole",
      "ip rule del pref 100 || true",
    ),
    follow: true,
  },
  {
    name: "forwarding is off for one interface",
    checks: ["attachment-changed"],
    message: /default\/db eth0 .*: IPv4 forwarding is off on "lan0"/,
    seed: ip(
      "echo 0 > /proc/sys/net/ipv4/conf/lan0/forwarding",
      "echo 1 > /proc/sys/net/ipv4/conf/lan0/forwarding",
    ),
    follow: true,
  },
  {
    name: "two default routes in a container",
    checks: ["packet-ends"],
    message:
      /default\/db eth0: default route .* over "two0": .* do not leave through/,
    seed: ip(
      "exec 9<$outside; ip link add two0 type veth peer name two1 netns /proc/self/fd/9; ip link set two0 up; nsenter --net=$outside sh -c 'ip link set two1 up; ip addr add 10.77.0.1/24 dev two1'; ip addr add 10.77.0.2/24 dev two0; ip route prepend default via 10.77.0.1 dev two0",
      "ip link del two0",
      inOther,
    ),
  },
  {
    name: "a blackhole route to a container",
    checks: ["packet-ends"],
    message: /default\/web eth0 are lost: the (host has no )?route back/,
    seed: ip(
      "ip route add blackhole 10.1.0.2/32 metric 0 2>/dev/null || ip route prepend blackhole 10.1.0.2",
      "ip route del blackhole 10.1.0.2",
    ),
  },
  {
    name: "a bridge that does not answer ARP",
    checks: ["packet-ends"],
    message: /default\/db eth0 are lost: ARP is off on "lan0"/,
    seed: ip("ip link set lan0 arp off", "ip link set lan0 arp on"),
    follow: true,
  },
  {
    name: "a container's address on the node",
    checks: ["packet-ends"],
    message: /the node itself has 10.2.0.2, on "lo"/,
    seed: ip(
      "ip addr add 10.2.0.2/32 dev lo",
      "ip addr del 10.2.0.2/32 dev lo || true",
    ),
    follow: true,
  },
  {
    name: "a local route to a bridge's subnet",
    checks: ["packet-ends"],
    message: /the route back to 10.2.0.2 is over "lo" instead of "lan0"/,
    seed: ip(
      "ip route add local 10.2.0.0/24 dev lo",
      "ip route del local 10.2.0.0/24 table local || true",
    ),
    follow: true,
  },
  {
    name: "a VPN's route to a part of a bridge's subnet",
    checks: ["packet-ends"],
    message: /the route back to 10.2.0.2 is over "tun9" instead of "lan0"/,
    seed: tunnel("ip route add 10.2.0.0/25 dev tun9"),
  },
  {
    name: "a routing rule that leads to a VPN's table",
    checks: ["packet-ends"],
    message: /the route back to 10.2.0.2 is over "tun9" instead of "lan0"/,
    seed: tunnel(
      "ip rule add to 10.2.0.0/24 lookup 77 pref 100; " +
        "ip route add default dev tun9 table 77",
      "ip rule del pref 100 || true",
    ),
  },
  {
    name: "the routing rule of the main table is gone",
    checks: ["packet-ends"],
    message: /the host has no route back to 10.1.0.2/,
    seed: ip(
      "ip rule del pref 32766",
      "ip rule del pref 32766 || true; ip rule add lookup main pref 32766",
    ),
    command: /^ip rule add pref 32766 lookup main$/m,
    follow: true,
  },
  {
    name: "a bridge's route is gone",
    checks: ["packet-ends"],
    message: /the route back to 10.2.0.2 is over "out0" instead of "lan0"/,
    seed: ip(
      "ip route del 10.2.0.0/24 dev lan0",
      "ip route replace 10.2.0.0/24 dev lan0 src 10.2.0.1",
    ),
    command: /^ip route add 10.2.0.0\/24 dev lan0 src 10.2.0.1$/m,
    follow: true,
  },
  {
    name: "a blackhole route to a container behind a bridge",
    checks: ["packet-ends"],
    message: /the host has no route back to 10.2.0.2/,
    seed: ip(
      "ip route add blackhole 10.2.0.2",
      "ip route del blackhole 10.2.0.2 || true",
    ),
    command: /^ip route del 10.2.0.2\/32$/m,
    follow: true,
  },
  {
    name: "a node that answers no ARP",
    checks: ["packet-ends"],
    message: /net.ipv4.conf.all.arp_ignore is 8: the node answers no ARP/,
    seed: ip(
      "sysctl -qw net.ipv4.conf.all.arp_ignore=8",
      "sysctl -qw net.ipv4.conf.all.arp_ignore=0",
    ),
    follow: true,
  },
  {
    name: "ARP is off in a container",
    checks: ["packet-ends"],
    message: /default\/db eth0 are lost: ARP is off on "eth0"/,
    seed: ip("ip link set eth0 arp off", "ip link set eth0 arp on", inOther),
    follow: true,
  },
  {
    name: "a port of a bridge that is switched off",
    checks: ["packet-ends"],
    message: /"veth\S+" is disabled as a port of "lan0"/,
    seed: ip(
      `bridge link set dev ${PORT} state 0`,
      `bridge link set dev ${PORT} state 3`,
    ),
    follow: true,
  },
  {
    name: "the node's output drops what goes to containers",
    checks: ["rule-drops"],
    message: /chain "inet doctor c" \(output\) drops packets$/m,
    seed: table("inet", chain("output", "ip daddr 10.2.0.0/24 drop")),
    follow: true,
  },
  {
    name: "the node's input drops what comes from containers",
    checks: ["rule-drops"],
    message: /chain "inet doctor c" \(input\) drops packets$/m,
    seed: table("inet", chain("input", "iifname lan0 meta l4proto tcp drop")),
    follow: true,
  },
  {
    name: "a rule that drops new connections",
    checks: ["rule-drops"],
    message: /\(forward\) drops packets$/m,
    seed: table(
      "inet",
      chain(
        "forward",
        "ct state established,related accept; ct state new drop",
      ),
    ),
    follow: true,
  },
  {
    name: "a masqueraded network whose connections are not tracked",
    checks: ["untracked"],
    message: /chain "ip doctor c" turns off connection tracking/,
    seed: table("ip", untracked("ip saddr 10.0.0.0/8 notrack")),
    follow: true,
  },
  {
    name: "nothing is tracked",
    checks: ["untracked"],
    message: /chain "inet doctor c" turns off connection tracking/,
    seed: table("inet", untracked("notrack")),
    follow: true,
  },
  {
    name: "a chain that others jump to has connections not tracked",
    checks: ["untracked"],
    message: /chain "ip doctor inner" turns off connection tracking/,
    seed: table(
      "ip",
      `chain inner { ip saddr 10.0.0.0/8 notrack; }; ${
        untracked("jump inner; accept")
      }`,
    ),
    follow: true,
  },
  {
    name: "connections that iptables does not track",
    checks: ["untracked"],
    message: /chain "ip raw PREROUTING" turns off connection tracking/,
    seed: ip(
      "iptables -t raw -A PREROUTING -s 10.1.0.0/16 -j CT --notrack",
      "nft delete table ip raw",
    ),
    follow: true,
  },
  {
    name: "a policy of IPsec that drops what is forwarded",
    checks: ["ipsec-blocks"],
    message:
      /policy \"src 10.1.0.0\/16 dst 0.0.0.0\/0 dir fwd\" drops packets$/m,
    seed: ip(
      "ip xfrm policy add src 10.1.0.0/16 dst 0.0.0.0/0 dir fwd action block",
      "ip xfrm policy flush",
    ),
    follow: true,
  },
  {
    name: "a policy of IPsec that drops what leaves by IPv6",
    checks: ["ipsec-blocks"],
    message: /policy \"src ::\/0 dst fd00:1::\/48 dir out\" drops packets$/m,
    seed: ip(
      "ip xfrm policy add src ::/0 dst fd00:1::/48 dir out action block",
      "ip xfrm policy flush",
    ),
    follow: true,
  },
  {
    name: "a rule that drops a set of private networks",
    checks: ["rule-drops"],
    message: /\(forward\) drops packets$/m,
    seed: table(
      "ip",
      "set private { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.168.0.0/16 }; }; " +
        chain("forward", "ip saddr @private drop"),
    ),
    follow: true,
  },
  {
    name: "a map of interfaces to chains that drop",
    checks: ["rule-drops"],
    message: /chain "inet doctor no" \(forward\) drops packets$/m,
    seed: table(
      "inet",
      "chain no { drop; }; " +
        chain("forward", "iifname vmap { lan0 : jump no, eth7 : accept }"),
    ),
    follow: true,
  },
  {
    name: "a rule that drops TCP only",
    checks: ["rule-drops"],
    message: /\(forward\) drops packets$/m,
    seed: table(
      "inet",
      chain("forward", "ip saddr 10.2.0.0/24 meta l4proto tcp reject"),
    ),
    follow: true,
  },
  {
    name: "a table of bridges that drops what they forward",
    checks: ["rule-drops"],
    message: /the nftables chain "bridge doctor c" \(forward\) has policy drop/,
    seed: async (scene) => {
      // Nothing else passes from one port to another.
      const netns = scene.hosts.addNetns();
      await scene.attach("20-lan", netns, "cccccccccccccccc", "two");
      const undo = table("bridge", chain("forward", "counter", "drop"))(scene);
      return async () => {
        undo();
        await scene.detach("20-lan", netns, "cccccccccccccccc");
      };
    },
    follow: true,
  },
  {
    name: "a full table of tracked connections",
    checks: ["packet-ends"],
    message: /the table of tracked connections is full: it has \d+ of \d+/,
    command: /^sysctl -w net.netfilter.nf_conntrack_max=\d+$/m,
    ignore: MOST_CONNECTIONS === undefined,
    seed: ip(fillConnections(MOST_CONNECTIONS ?? 0), "conntrack -F"),
  },
  {
    name: "a table of ARP that drops everything",
    checks: ["rule-drops"],
    message: /rule \d+ of the nftables chain "arp doctor c"/,
    seed: table("arp", chain("input", "counter drop")),
    follow: true,
  },
  {
    name:
      "a queue inside a container, at a link whose name the node has as well",
    checks: ["packet-ends"],
    message: /left over "eth0" \(index \d+ in the namespace of default\/db\)/,
    command: /^ip -details -statistics link show eth0|nsenter --net=\S+ ip -d/m,
    seed: (scene) => {
      scene.sh(
        "ip link add eth0 type veth peer name odd1; ip link set eth0 up",
      );
      const undo = ip(
        "tc qdisc add dev eth0 root tbf rate 1mbit burst 20 latency 1ms",
        "tc qdisc del dev eth0 root",
        inOther,
      )(scene);
      return () => {
        undo();
        scene.sh("ip link del eth0");
      };
    },
  },
];
