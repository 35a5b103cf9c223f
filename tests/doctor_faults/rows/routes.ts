/**
 * Routes, routing rules, sysctls and policies of IPsec that stop packets.
 *
 * @module
 */

import { ping, tcp } from "../controls.ts";
import { CACHE, FAR, FAR6, HOST_PORT, ROUTER } from "../fault_node.ts";
import { all, type FaultRow, on, type Seed, sysctl } from "../row.ts";

/** Has a link that looks like a VPN's tunnel, and leads nowhere. */
function tunnel(breaks: string, fixes = "true"): Seed {
  return on(
    "node",
    "ip link add tun9 type veth peer name tun8; ip link set tun9 up; " +
      `ip link set tun8 up; ${breaks}`,
    `${fixes}; ip link del tun9`,
  );
}

/** Has a second uplink to the router. */
const secondUplink = on(
  "node",
  "ip link add up1 type veth peer name up2; exec 9<$NS_ROUTER; " +
    "ip link set up2 netns /proc/self/fd/9; ip addr add 198.51.100.1/24 dev up1; " +
    "ip link set up1 up; nsenter --net=$NS_ROUTER sh -ec " +
    "'ip addr add 198.51.100.2/24 dev up2; ip link set up2 up'",
  "ip link del up1",
);

/** On the node. */
const ON_NODE: readonly FaultRow[] = [
  {
    name: "a VPN takes the default route",
    fails: ping("web", FAR),
    cause: /"?tun9/,
    seed: tunnel(
      "ip route add 0.0.0.0/1 dev tun9; ip route add 128.0.0.0/1 dev tun9",
    ),
  },
  {
    name: "a VPN takes the default route by a rule",
    fails: ping("db", FAR),
    cause: /"?tun9/,
    seed: tunnel(
      "ip route add default dev tun9 table 51820; ip rule add not fwmark 51820 table 51820 pref 100; ip rule add lookup main suppress_prefixlength 0 pref 99",
      "ip rule del pref 100; ip rule del pref 99",
    ),
  },
  {
    name: "a route that forbids a destination",
    fails: ping("web", FAR),
    cause: /203\.0\.113\.0\/24/,
    seed: on(
      "node",
      "ip route add prohibit 203.0.113.0/24",
      "ip route del prohibit 203.0.113.0/24",
    ),
  },
  {
    name: "a blackhole for a destination",
    fails: tcp("db", FAR),
    cause: /203\.0\.113\.0\/24/,
    seed: on(
      "node",
      "ip route add blackhole 203.0.113.0/24",
      "ip route del blackhole 203.0.113.0/24",
    ),
  },
  {
    name: "a blackhole for an IPv6 destination",
    fails: ping("web", FAR6),
    cause: /2001:db8:80::\/48/,
    seed: on(
      "node",
      "ip -6 route add blackhole 2001:db8:80::/48",
      "ip -6 route del blackhole 2001:db8:80::/48",
    ),
  },
  {
    name: "a rule leads a network to a table without a way",
    fails: ping("db", FAR),
    cause: /rule 100|table 77/,
    seed: on(
      "node",
      "ip route add unreachable default table 77; ip rule add from 10.2.0.0/24 lookup 77 pref 100",
      "ip rule del pref 100; ip route flush table 77",
    ),
  },
  {
    name: "a rule forbids what comes from a bridge",
    fails: ping("db", FAR),
    cause: /rule 100/,
    seed: on(
      "node",
      "ip rule add iif lan0 pref 100 prohibit",
      "ip rule del pref 100",
    ),
  },
  {
    name: "a rule stops connections to a port",
    fails: tcp("web", FAR),
    cause: /rule 100/,
    seed: on(
      "node",
      "ip rule add ipproto tcp dport 80 pref 100 blackhole",
      "ip rule del pref 100",
    ),
  },
  {
    name: "no IPv6 default route",
    fails: ping("web", FAR6),
    cause: /IPv6.*(default )?route/,
    seed: on(
      "node",
      "ip -6 route del default",
      "ip -6 route add default via 2001:db8:ff::2",
    ),
  },
  {
    name: "no IPv4 default route",
    fails: ping("web", FAR),
    cause: /IPv4.*default route|no route/,
    seed: on(
      "node",
      "ip route del default",
      "ip route add default via 192.0.2.2",
    ),
  },
  {
    name: "a route by a router that is not there",
    fails: ping("web", FAR),
    cause: /192\.0\.2\.99/,
    seed: on(
      "node",
      "ip route add 203.0.113.0/24 via 192.0.2.99",
      "ip route del 203.0.113.0/24",
    ),
  },
  {
    name: "a destination on the wrong link",
    fails: ping("web", FAR),
    cause: /lan0/,
    seed: on(
      "node",
      "ip route add 203.0.113.0/24 dev lan0",
      "ip route del 203.0.113.0/24",
    ),
  },
  {
    name: "the node has the address of a server",
    fails: tcp("web", FAR),
    cause: /node.*203\.0\.113\.80|203\.0\.113\.80.*(node|"lo")/,
    seed: on(
      "node",
      `ip addr add ${FAR}/32 dev lo`,
      `ip addr del ${FAR}/32 dev lo`,
    ),
  },
  {
    name: "forwarding is off for the uplink alone",
    fails: ping("db", ROUTER),
    cause: /net.ipv4.conf.out0.forwarding/,
    seed: sysctl("net/ipv4/conf/out0/forwarding", 0),
  },
  {
    name: "strict reverse path filtering with two uplinks",
    fails: ping("db", FAR),
    cause: /rp_filter/,
    seed: all(
      secondUplink,
      on(
        "node",
        "ip route add 203.0.113.0/24 via 198.51.100.2",
        "ip route del 203.0.113.0/24",
      ),
      sysctl("net/ipv4/conf/out0/rp_filter", 1),
    ),
  },
  {
    name: "strict reverse path filtering of all links",
    fails: ping("db", FAR),
    cause: /rp_filter/,
    seed: all(
      secondUplink,
      on(
        "node",
        "ip route add 203.0.113.0/24 via 198.51.100.2",
        "ip route del 203.0.113.0/24",
      ),
      sysctl("net/ipv4/conf/all/rp_filter", 1),
    ),
  },
  {
    name: "a port of the host does not lead from the loopback",
    fails: tcp("node", "127.0.0.1", HOST_PORT),
    cause: /route_localnet/,
    seed: (node) => {
      const keys = ["all", node.sh("echo $SHOP").trim()]
        .map((link) => `net/ipv4/conf/${link}/route_localnet`);
      return all(...keys.map((key) => sysctl(key, 0)))(node);
    },
  },
  {
    name: "the node answers no ARP on one bridge",
    fails: ping("db", "10.2.0.1"),
    cause: /arp_ignore/,
    seed: all(
      sysctl("net/ipv4/conf/lan0/arp_ignore", 8),
      // The node, too, else it asks for the container, which learns its MAC by that.
      on("node", "ip neigh flush dev lan0", "true"),
      on("db", "ip neigh flush dev eth0", "true"),
    ),
  },
  {
    name: "IPsec drops what leaves for a destination",
    fails: ping("db", FAR),
    cause: /IPsec.*203\.0\.113/,
    seed: on(
      "node",
      `ip xfrm policy add src 0.0.0.0/0 dst 203.0.113.0/24 dir out action block`,
      "ip xfrm policy flush",
    ),
  },
  {
    name: "IPsec wants a tunnel that is not up",
    fails: ping("db", FAR),
    cause: /IPsec.*10\.2\.0\.0\/24/,
    seed: on(
      "node",
      "ip xfrm policy add src 10.2.0.0/24 dst 0.0.0.0/0 dir out tmpl src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel",
      "ip xfrm policy flush; ip xfrm state flush",
    ),
  },
  {
    name: "IPsec accepts replies from a tunnel only",
    fails: ping("db", FAR),
    cause: /IPsec.*10\.2\.0\.0\/24/,
    seed: on(
      "node",
      "ip xfrm policy add src 0.0.0.0/0 dst 10.2.0.0/24 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 proto esp mode tunnel",
      "ip xfrm policy flush; ip xfrm state flush",
    ),
  },
];

/** In a container. */
const INSIDE: readonly FaultRow[] = [
  {
    name: "a container's default route by a router that is not there",
    fails: ping("db", FAR),
    cause: /10\.2\.0\.77/,
    seed: on(
      "db",
      "ip route replace default via 10.2.0.77",
      "ip route replace default via 10.2.0.1",
    ),
  },
  {
    name: "a blackhole in a container",
    fails: ping("db", FAR),
    cause: /203\.0\.113\.0\/24/,
    seed: on(
      "db",
      "ip route add blackhole 203.0.113.0/24",
      "ip route del blackhole 203.0.113.0/24",
    ),
  },
  {
    name: "a routing rule in a container leads to a table without a way",
    fails: ping("db", FAR),
    cause: /rule 100|table 77/,
    seed: on(
      "db",
      "ip rule add from 10.2.0.2 lookup 77 pref 100; ip route add prohibit default table 77",
      "ip rule del pref 100; ip route flush table 77",
    ),
  },
  {
    name: "a container has no route to its neighbours",
    fails: ping("db", CACHE),
    cause: /prohibit 10\.2\.0\.3/,
    seed: on(
      "db",
      "ip route add prohibit 10.2.0.3",
      "ip route del prohibit 10.2.0.3",
    ),
  },
  {
    name: "packets of a container are too old",
    fails: ping("db", FAR),
    cause: /ttl/i,
    seed: sysctl("net/ipv4/ip_default_ttl", 1, "db"),
  },
  {
    name: "IPv6 is disabled in a container",
    fails: ping("web", FAR6),
    cause: /IPv6|fd00:1::2/,
    seed: on(
      "web",
      "ip -6 route save dev eth0 > ${SAVED}routes; " +
        "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6",
      "echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; " +
        "ip addr replace fd00:1::2/64 dev eth0 nodad noprefixroute; " +
        "ip -6 route restore < ${SAVED}routes; rm ${SAVED}routes",
    ),
  },
];

/** Routes, routing rules, sysctls and policies of IPsec that stop packets. */
export const ROUTES: readonly FaultRow[] = [...ON_NODE, ...INSIDE];
