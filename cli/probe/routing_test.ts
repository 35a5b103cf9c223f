/** decide(): rules and routes of a namespace, beside what its kernel says. */
import { assertEquals } from "@std/assert";
import { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { RuleRequests } from "../../ffi/rtnl/rule.ts";
import { Ip } from "../../net/ip.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { decide, type RoutedPacket } from "./routing.ts";

const PACKET: RoutedPacket = {
  source: Ip.parse("10.0.0.1"),
  destination: Ip.parse("192.0.2.9"),
  protocol: 6,
  port: 80,
  input: "lo",
  mark: 0,
};

const SETUP = `
ip link set lo up
ip link add a0 type veth peer name b0
ip addr add 10.0.0.1/24 dev a0
ip link set a0 up; ip link set b0 up
ip route add default via 10.0.0.2`;

/** Commands, a packet, and by which rule and route it goes. */
const ROWS: readonly [
  name: string,
  commands: string,
  packet: Partial<RoutedPacket>,
  decision: string,
][] = [
  ["the main table", "", {}, "32766 unicast 0.0.0.0/0"],
  [
    "the longer prefix",
    "ip route add blackhole 192.0.2.0/25",
    {},
    "32766 blackhole 192.0.2.0/25",
  ],
  [
    "a table by source",
    "ip rule add from 10.0.0.0/24 lookup 7 pref 9; ip route add prohibit default table 7",
    {},
    "9 prohibit 0.0.0.0/0",
  ],
  [
    "a table without a route",
    "ip rule add lookup 7 pref 9; ip route add unreachable 198.51.100.0/24 table 7",
    {},
    "32766 unicast 0.0.0.0/0",
  ],
  ["a rule that stops", "ip rule add prohibit pref 9", {}, "9 stops"],
  [
    "a rule for others",
    "ip rule add not from 10.0.0.0/24 prohibit pref 9",
    {},
    "32766 unicast 0.0.0.0/0",
  ],
  [
    "a rule for a mark",
    "ip rule add fwmark 0x5/0xf prohibit pref 9",
    { mark: 0x25 },
    "9 stops",
  ],
  [
    "a rule for another mark",
    "ip rule add fwmark 0x5/0xf prohibit pref 9",
    { mark: 0x24 },
    "32766 unicast 0.0.0.0/0",
  ],
  [
    "a rule for a port",
    "ip rule add ipproto tcp dport 80-81 prohibit pref 9",
    {},
    "9 stops",
  ],
  [
    "a rule for another port",
    "ip rule add ipproto tcp dport 82 prohibit pref 9",
    {},
    "32766 unicast 0.0.0.0/0",
  ],
  [
    "a rule for a link",
    "ip rule add iif b0 prohibit pref 9",
    { input: "b0" },
    "9 stops",
  ],
  [
    "a VPN's rules",
    "ip rule add lookup main suppress_prefixlength 0 pref 8; " +
    "ip rule add not fwmark 51820 lookup 51820 pref 9; " +
    "ip route add default dev b0 table 51820",
    {},
    "9 unicast 0.0.0.0/0",
  ],
  [
    "an own address",
    "ip addr add 192.0.2.9/32 dev lo",
    {},
    "0 local 192.0.2.9/32",
  ],
  ["no route", "ip route del default", {}, "none"],
];

rootTest("decide() finds the rule and the route of a packet", async (t) => {
  await eachRow(t, ROWS, ([, commands, packet, expected]) => {
    using netns = NetNs.create();
    runIn(netns, "sh", "-ec", `${SETUP}\n${commands}`);
    using rtnl = Rtnl.open(netns.path);
    const found = decide(
      new RuleRequests(rtnl.socket).list(),
      rtnl.route.listEntries(),
      { ...PACKET, ...packet },
    );
    const { rule, route } = found ?? {};
    assertEquals(
      rule === undefined
        ? "none"
        : route === undefined
        ? `${rule.priority} stops`
        : `${rule.priority} ${route.type} ${route.destination}`,
      expected,
    );
  });
});
