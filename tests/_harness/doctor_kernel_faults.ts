/**
 * Faults of what the kernel has: routes, routing rules, ports of bridges, MACs,
 * and rules of nftables with sets, maps and states.
 *
 * @module
 */

import type { DoctorScene } from "./doctor_scene.ts";
import {
  type Fault,
  inOther,
  inPod,
  ip,
  network,
  type Undo,
} from "./doctor_fault.ts";

/** The port of the bridge. */
const PORT = "$(ip -o link show master lan0 | sed 's/^[0-9]*: //; s/@.*//')";

/** Adds a table of nftables. */
function table(
  family: string,
  content: string,
): (scene: DoctorScene) => Undo {
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

/** Has a tunnel of a VPN that takes packets. */
function tunnel(
  breaks: string,
  mends = ":",
): (scene: DoctorScene) => Undo {
  return ip(
    "ip link add tun9 type veth peer name tun8; ip link set tun9 up; " +
      `ip link set tun8 up; ${breaks}`,
    `ip link del tun9; ${mends}`,
  );
}

/** Flannel's bridge has the address of an earlier lease of the node's subnet. */
function flannel(scene: DoctorScene): Undo {
  const subnetFile = `${scene.hosts.directory}/subnet.env`;
  Deno.writeTextFileSync(
    subnetFile,
    "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n" +
      "FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
  );
  const delegate = { isDefaultGateway: true };
  const undo = network({ type: "flannel", subnetFile, delegate })(scene);
  scene.sh(
    "ip link add cni0 type bridge; ip addr add 10.244.0.1/24 dev cni0; " +
      "ip link set cni0 up",
  );
  return () => {
    undo();
    Deno.removeSync(subnetFile);
    scene.sh("ip link del cni0");
  };
}

/** The MAC of the container behind the bridge. */
function macOf(scene: DoctorScene): string {
  return scene.sh(
    "ip -o link show eth0 | sed 's/.*ether //; s/ .*//'",
    scene.other,
  ).trim();
}

/** Has a container behind the bridge with the MAC of `db`, which has another one for a moment. */
async function attachTwin(scene: DoctorScene): Promise<Undo> {
  const mac = macOf(scene);
  const netns = scene.hosts.addNetns();
  const file = "40-twin";
  const path = scene.writeNetwork(file, [
    { type: "bridge", bridge: "lan0", capabilities: { mac: true } },
  ]);
  const id = "0011223344556677";
  scene.sh("ip link set eth0 address 02:00:00:00:00:01", scene.other);
  await scene.attach(file, netns, id, "twin", { capabilityArgs: { mac } });
  scene.sh(`ip link set eth0 address ${mac}`, scene.other);
  return () => {
    scene.sh("ip link del eth0", netns);
    Deno.removeSync(path);
    Deno.removeSync(`${scene.cacheDir}/results/twin-${id}-eth0`);
  };
}

/** The faults. */
export const KERNEL_FAULTS: readonly Fault[] = [
  {
    name: "flannel's subnet is another one than its bridge's",
    checks: ["bridge-address"],
    message:
      /bridge "cni0" has 10.244.0.1\/24, and "more" needs 10.244.1.1\/24/,
    seed: flannel,
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
    message: /the route back to 10.2.0.2 is by "lo" instead of "lan0"/,
    seed: ip(
      "ip route add local 10.2.0.0/24 dev lo",
      "ip route del local 10.2.0.0/24 table local || true",
    ),
    follow: true,
  },
  {
    name: "a VPN's route to a part of a bridge's subnet",
    checks: ["packet-ends"],
    message: /the route back to 10.2.0.2 is by "tun9" instead of "lan0"/,
    seed: tunnel("ip route add 10.2.0.0/25 dev tun9"),
  },
  {
    name: "a routing rule that leads to a VPN's table",
    checks: ["packet-ends"],
    message: /the route back to 10.2.0.2 is by "tun9" instead of "lan0"/,
    seed: tunnel(
      "ip rule add to 10.2.0.0/24 lookup 77 pref 100; " +
        "ip route add default dev tun9 table 77",
      "ip rule del pref 100",
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
    message: /the route back to 10.2.0.2 is by "out0" instead of "lan0"/,
    seed: ip(
      "ip route del 10.2.0.0/24 dev lan0",
      "ip route replace 10.2.0.0/24 dev lan0 src 10.2.0.1",
    ),
    command: /^ip route add 10.2.0.0\/24 dev lan0 src 10.2.0.1$/m,
    follow: true,
  },
  {
    name: "a container's route on the node is gone",
    checks: ["attachment-changed"],
    message: /default\/web eth0 on "pods": ptp: .* lacks route 10.1.0.2\/32/,
    seed: ip(
      "ip route show 10.1.0.2 > /run/doctor-route; ip route del 10.1.0.2",
      "ip route replace $(cat /run/doctor-route); rm /run/doctor-route",
    ),
    command: /^ip route add 10.1.0.2 dev veth\S+$/m,
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
    name: "an address of a container without its subnet",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: .* lacks address 10.2.0.2\/24/,
    seed: ip(
      "ip addr del 10.2.0.2/24 dev eth0; ip addr add 10.2.0.2/32 dev eth0",
      "ip addr del 10.2.0.2/32 dev eth0",
      inOther,
    ),
    follow: true,
  },
  {
    name: "IPv6 disabled in a container",
    checks: ["attachment-changed"],
    message: /default\/web eth0 on "pods": ptp: .* lacks address fd00:1::2\/64/,
    seed: ip(
      "ip -6 route save dev eth0 > /run/doctor-routes; " +
        "sysctl -qw net/ipv6/conf/eth0/disable_ipv6=1",
      "sysctl -qw net/ipv6/conf/eth0/disable_ipv6=0; " +
        "ip addr replace fd00:1::2/64 dev eth0 nodad noprefixroute; " +
        "ip -6 route restore < /run/doctor-routes; rm /run/doctor-routes",
      inPod,
    ),
    command:
      /sysctl -w net\/ipv6\/conf\/eth0\/disable_ipv6=0 && nsenter \S+ ip address add fd00:1::2\/64 dev eth0$/m,
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
    message: /default\/db eth0 end at arp: ARP is off on "eth0"/,
    seed: ip("ip link set eth0 arp off", "ip link set eth0 arp on", inOther),
    follow: true,
  },
  {
    name: "a port of a bridge that is switched off",
    checks: ["packet-ends"],
    message: /default\/db eth0 end at bridge: "veth\S+" is disabled as a port/,
    seed: ip(
      `bridge link set dev ${PORT} state 0`,
      `bridge link set dev ${PORT} state 3`,
    ),
    follow: true,
  },
  {
    name: "a static entry of a bridge that leads to another port",
    checks: ["mac-twice"],
    message:
      /"lan0" sends frames for \S+, the MAC of default\/db eth0, to the port "tun9"/,
    seed: (scene) => {
      const mac = macOf(scene);
      return tunnel(
        "ip link set tun9 master lan0; " +
          `bridge fdb replace ${mac} dev tun9 master static sticky`,
      )(scene);
    },
    follow: true,
  },
  {
    name: "two containers with one MAC behind a bridge",
    checks: ["mac-twice"],
    message: /default\/twin eth0 and default\/db eth0 both have MAC/,
    seed: attachTwin,
  },
  {
    name: "the node's output drops what goes to containers",
    checks: ["rule-drops"],
    message: /chain "inet doctor c" \(output\) drops packets of "lan"/,
    seed: table("inet", chain("output", "ip daddr 10.2.0.0/24 drop")),
    follow: true,
  },
  {
    name: "the node's input drops what comes from containers",
    checks: ["rule-drops"],
    message: /chain "inet doctor c" \(input\) drops packets of "lan"/,
    seed: table("inet", chain("input", "iifname lan0 meta l4proto tcp drop")),
    follow: true,
  },
  {
    name: "a rule that drops new connections",
    checks: ["rule-drops"],
    message: /\(forward\) drops packets of "pods", "lan"/,
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
    message: /chain "ip doctor c" has connections of "pods" not tracked/,
    seed: table("ip", untracked("ip saddr 10.0.0.0/8 notrack")),
    follow: true,
  },
  {
    name: "nothing is tracked",
    checks: ["untracked"],
    message: /chain "inet doctor c" has connections of "pods" not tracked/,
    seed: table("inet", untracked("notrack")),
    follow: true,
  },
  {
    name: "a chain that others jump to has connections not tracked",
    checks: ["untracked"],
    message: /chain "ip doctor inner" has connections of "pods" not tracked/,
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
    message: /chain "ip raw PREROUTING" has connections of "pods" not tracked/,
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
      /policy \"src 10.1.0.0\/16 dst 0.0.0.0\/0 dir fwd\" drops packets of \"pods\"$/,
    seed: ip(
      "ip xfrm policy add src 10.1.0.0/16 dst 0.0.0.0/0 dir fwd action block",
      "ip xfrm policy flush",
    ),
    follow: true,
  },
  {
    name: "a policy of IPsec that drops what leaves by IPv6",
    checks: ["ipsec-blocks"],
    message:
      /policy \"src ::\/0 dst fd00:1::\/48 dir out\" drops packets of \"pods\"$/,
    seed: ip(
      "ip xfrm policy add src ::/0 dst fd00:1::/48 dir out action block",
      "ip xfrm policy flush",
    ),
    follow: true,
  },
  {
    name: "a rule that drops a set of private networks",
    checks: ["rule-drops"],
    message: /\(forward\) drops packets of "pods", "lan"/,
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
    message: /chain "inet doctor no" \(forward\) drops packets of "lan"/,
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
    message: /\(forward\) drops packets of "lan"/,
    seed: table(
      "inet",
      chain("forward", "ip saddr 10.2.0.0/24 meta l4proto tcp reject"),
    ),
    follow: true,
  },
  {
    name: "a table of bridges that drops what they forward",
    checks: ["rule-drops"],
    message:
      /the nftables chain "bridge doctor c" \(forward\) drops everything/,
    seed: table("bridge", chain("forward", "counter", "drop")),
    follow: true,
  },
  {
    name: "a table of ARP that drops everything",
    checks: ["rule-drops"],
    message: /the nftables chain "arp doctor c" \(input\) drops everything/,
    seed: table("arp", chain("input", "counter drop")),
    follow: true,
  },
];
