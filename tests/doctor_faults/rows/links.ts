/**
 * Links, bridges, neighbours and traffic control that stop packets.
 *
 * @module
 */

import { ping, upload } from "../controls.ts";
import { CACHE, DB, FAR, FAR6, ROUTER } from "../fault_node.ts";
import { all, type FaultRow, needsTc, on, type Seed } from "../row.ts";

const WRONG_MAC = "02:00:00:00:00:99";
/** A program of the classic BPF that returns TC_ACT_SHOT. */
const DROP_ALL = "bpf da bytecode '1,6 0 0 2'";

const forget = (place: "db" | "cache"): string =>
  `nsenter --net=$NS_${place.toUpperCase()} ip neigh flush dev eth0`;

/** Bridges and their ports. */
const BRIDGES: readonly FaultRow[] = [
  {
    name: "ports of a bridge are isolated",
    fails: ping("db", CACHE),
    cause: /isolated/,
    seed: on(
      "node",
      "bridge link set dev $DB isolated on; bridge link set dev $CACHE isolated on",
      "bridge link set dev $DB isolated off; bridge link set dev $CACHE isolated off",
    ),
  },
  {
    name: "a port that neither learns nor is flooded",
    fails: ping("db", CACHE),
    cause: /flood|learn/,
    seed: on(
      "node",
      "bridge link set dev $CACHE learning off flood off; ip link set lan0 type bridge fdb_flush",
      "bridge link set dev $CACHE learning on flood on",
    ),
  },
  {
    name: "a bridge sends a container's frames to another port",
    fails: ping("cache", DB),
    cause: /frames for .*MAC of default\/db/,
    seed: on(
      "node",
      "bridge fdb replace $MAC_DB dev $CACHE master static sticky",
      "bridge fdb del $MAC_DB dev $CACHE master",
    ),
  },
  {
    name: "a container's port is off its bridge",
    fails: ping("db", CACHE),
    cause: /bridge/,
    seed: on(
      "node",
      "ip link set $DB nomaster",
      "ip link set $DB master lan0",
    ),
  },
  {
    name: "a container's port is on another bridge",
    fails: ping("db", CACHE),
    cause: /bridge|br9/,
    seed: on(
      "node",
      "ip link add br9 up type bridge; ip link set $DB master br9",
      "ip link set $DB master lan0; ip link del br9",
    ),
  },
  {
    name: "a port of a bridge that is switched off",
    fails: ping("db", CACHE),
    cause: /disabled/,
    seed: on(
      "node",
      "bridge link set dev $DB state 0",
      "bridge link set dev $DB state 3",
    ),
  },
  {
    name: "STP holds back a port",
    fails: ping("db", CACHE),
    cause: /STP/,
    seed: on(
      "node",
      "ip link set lan0 type bridge stp_state 1 forward_delay 3000; " +
        "ip link set $DB nomaster; ip link set $DB master lan0",
      "ip link set lan0 type bridge stp_state 0 forward_delay 1500; " +
        "bridge link set dev $DB state 3; bridge link set dev $CACHE state 3",
    ),
  },
  {
    name: "a bridge that is down",
    fails: ping("db", CACHE),
    cause: /"lan0" is down/,
    seed: on("node", "ip link set lan0 down", "ip link set lan0 up"),
  },
  {
    name: "VLAN filtering without the port's VLAN",
    fails: ping("db", CACHE),
    cause: /VLAN/,
    needs: needsTc("ip link add b0 type bridge vlan_filtering 1"),
    seed: on(
      "node",
      "ip link set lan0 type bridge vlan_filtering 1; bridge vlan del dev $DB vid 1",
      "bridge vlan add dev $DB vid 1 pvid untagged; ip link set lan0 type bridge vlan_filtering 0",
    ),
  },
  {
    name: "the uplink is a port of a bridge",
    fails: ping("web", ROUTER),
    cause: /"out0".*(port|bridge)/,
    isOfOthers: true,
    seed: on(
      "node",
      "ip link add br9 up type bridge; ip link set out0 master br9; ip neigh flush dev out0",
      "ip link del br9",
    ),
  },
  {
    name: "a route over a bridge's cable",
    fails: ping("web", FAR),
    cause: /"cable0".*port of the bridge "br9"/,
    isOfOthers: true,
    seed: on(
      "node",
      "ip link add br9 up type bridge; " +
        "ip link add cable0 type veth peer name odd1; " +
        "ip link set cable0 up master br9; ip link set odd1 up; " +
        `ip route add ${FAR} dev cable0`,
      "ip link del cable0; ip link del br9",
    ),
  },
];

/** Neighbours and addresses. */
const NEIGHBOURS: readonly FaultRow[] = [
  {
    name: "a static neighbour for the node's router",
    fails: ping("web", ROUTER),
    cause: /192\.0\.2\.2/,
    seed: on(
      "node",
      `ip neigh replace ${ROUTER} lladdr ${WRONG_MAC} dev out0 nud permanent`,
      `ip neigh del ${ROUTER} dev out0`,
    ),
  },
  {
    name: "a static neighbour for the node's IPv6 router",
    fails: ping("web", FAR6),
    cause: /2001:db8:ff::2/,
    seed: on(
      "node",
      `ip neigh replace 2001:db8:ff::2 lladdr ${WRONG_MAC} dev out0 nud permanent`,
      "ip neigh del 2001:db8:ff::2 dev out0",
    ),
  },
  {
    name: "a static neighbour on the node for a container",
    fails: ping("node", DB),
    cause: /static neighbour of the node .*10\.2\.0\.2/,
    seed: on(
      "node",
      `ip neigh replace ${DB} lladdr ${WRONG_MAC} dev lan0 nud permanent`,
      `ip neigh del ${DB} dev lan0`,
    ),
  },
  {
    name: "a static neighbour in a container for its gateway",
    fails: ping("db", FAR),
    cause: /static neighbour in default\/db/,
    seed: on(
      "db",
      `ip neigh replace 10.2.0.1 lladdr ${WRONG_MAC} dev eth0 nud permanent`,
      "ip neigh del 10.2.0.1 dev eth0",
    ),
  },
  {
    name: "a static neighbour in a container for another one",
    fails: ping("db", CACHE),
    cause: /10\.2\.0\.3/,
    seed: on(
      "db",
      `ip neigh replace ${CACHE} lladdr ${WRONG_MAC} dev eth0 nud permanent`,
      `ip neigh del ${CACHE} dev eth0`,
    ),
  },
  {
    name: "the gateway's address is gone",
    fails: ping("db", FAR),
    cause: /10\.2\.0\.1/,
    seed: on(
      "node",
      `ip addr del 10.2.0.1/24 dev lan0; ${forget("db")}`,
      "ip addr replace 10.2.0.1/24 dev lan0",
    ),
  },
  {
    name: "a container's interface is down",
    fails: ping("db", CACHE),
    cause: /"eth0" is down/,
    seed: on(
      "db",
      "ip link set eth0 down",
      "ip link set eth0 up; ip route replace default via 10.2.0.1",
    ),
  },
  {
    name: "the loopback of a container is down",
    fails: ping("web", "127.0.0.1"),
    cause: /"lo" of default\/web is down/,
    seed: on("web", "ip link set lo down", "ip link set lo up"),
  },
  {
    name: "the host's end of a container is down",
    fails: ping("web", FAR),
    cause: /is down/,
    seed: on(
      "node",
      "ip addr save dev $WEB > ${SAVED}addresses; ip route save dev $WEB > ${SAVED}routes; " +
        "ip -6 route save dev $WEB > ${SAVED}routes6; ip link set $WEB down",
      "ip link set $WEB up; ip addr restore < ${SAVED}addresses; ip route restore < ${SAVED}routes; " +
        "ip -6 route restore < ${SAVED}routes6; rm ${SAVED}*",
    ),
  },
  {
    name: "a container's IPv6 address is a duplicate",
    fails: ping("web", FAR6),
    cause: /fd00:1::2\/64 is in use by another host/,
    // The host's end has the address until the container has asked for it.
    seed: on(
      "web",
      "ip -6 route save dev eth0 > ${SAVED}routes; ip addr del fd00:1::2/64 dev eth0; " +
        "nsenter --net=$NS_NODE ip addr add fd00:1::2/128 dev $WEB nodad; " +
        "echo 1 > /proc/sys/net/ipv6/conf/eth0/accept_dad; " +
        "ip addr add fd00:1::2/64 dev eth0 noprefixroute; " +
        "until ip -6 addr show dev eth0 | grep -q dadfailed; do sleep 0.1; done; " +
        "nsenter --net=$NS_NODE ip addr del fd00:1::2/128 dev $WEB",
      "echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad; ip addr del fd00:1::2/64 dev eth0; " +
        "ip addr add fd00:1::2/64 dev eth0 nodad noprefixroute; " +
        "ip -6 route flush dev eth0; ip -6 route restore < ${SAVED}routes; rm ${SAVED}routes",
    ),
  },
];

/** Has a container cut its packets itself: a veth pair does not mind longer ones. */
const uncut = (place: "web" | "cache"): Seed =>
  on(
    place,
    "ip link set eth0 gso_max_segs 1",
    "ip link set eth0 gso_max_segs 65535",
  );

/** The largest packet of a link, and the packets that it sends. */
const TRAFFIC: readonly FaultRow[] = [
  {
    name: "a path with a smaller MTU than its links",
    fails: upload("web", ROUTER),
    cause: /an MTU of about 1400/,
    seed: all(
      uncut("web"),
      on(
        "router",
        // It does not tell senders: they meet it as they meet a tunnel on the way.
        "ip link set eth0 mtu 1400; ip route replace 192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2 advmss 1460",
        "ip route replace 192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2; ip link set eth0 mtu 1500; nsenter --net=$NS_NODE ip link set out0 mtu 1500; " +
          "nsenter --net=$NS_WEB ip route flush cache",
      ),
    ),
  },
  {
    name: "a container's port with a smaller MTU",
    fails: upload("cache", DB),
    cause: /MTU.*1300/,
    seed: all(
      uncut("cache"),
      on(
        "node",
        "ip link set $DB mtu 1300",
        "ip link set $DB mtu 1500; nsenter --net=$NS_DB ip link set eth0 mtu 1500",
      ),
    ),
  },
  {
    name: "a classifier drops at a container's link",
    fails: ping("db", "10.2.0.1"),
    cause: /filter.*veth|veth.*filter/,
    seed: on(
      "node",
      `tc qdisc add dev $DB clsact; tc filter add dev $DB ingress ${DROP_ALL}`,
      "tc qdisc del dev $DB clsact",
    ),
  },
  {
    name: "a classifier drops what goes to a container",
    fails: ping("node", DB),
    cause: /filter.*veth|veth.*filter/,
    seed: on(
      "node",
      `tc qdisc add dev $DB clsact; tc filter add dev $DB egress ${DROP_ALL}`,
      "tc qdisc del dev $DB clsact",
    ),
  },
  {
    name: "a classifier drops at the uplink",
    fails: ping("web", ROUTER),
    cause: /filter.*out0|out0.*filter/,
    isOfOthers: true,
    seed: on(
      "node",
      `tc qdisc add dev out0 clsact; tc filter add dev out0 egress ${DROP_ALL}`,
      "tc qdisc del dev out0 clsact",
    ),
  },
  {
    name: "a filter sends packets to a link that leads nowhere",
    fails: ping("db", "10.2.0.1"),
    cause: /redirect.*odd0/,
    seed: on(
      "node",
      "ip link add odd0 type veth peer name odd1; ip link set odd0 up; ip link set odd1 up; " +
        "tc qdisc add dev $DB ingress; tc filter add dev $DB ingress protocol all u32 match u32 0 0 action mirred egress redirect dev odd0",
      "tc qdisc del dev $DB ingress; ip link del odd0",
    ),
  },
  {
    name: "a limit with a burst that is smaller than a packet",
    fails: ping("db", "10.2.0.1"),
    cause: /burst/,
    seed: on(
      "node",
      "tc qdisc add dev $DB root tbf rate 1mbit burst 20 latency 1ms",
      "tc qdisc del dev $DB root",
    ),
  },
  {
    name: "the uplink has a limit that lets nothing pass",
    fails: ping("web", ROUTER),
    cause: /qdisc of "out0"/,
    isOfOthers: true,
    seed: on(
      "node",
      "tc qdisc add dev out0 root tbf rate 1mbit burst 20 latency 1ms",
      "tc qdisc del dev out0 root",
    ),
  },
  {
    name: "the uplink loses all packets",
    fails: ping("web", ROUTER),
    cause: /netem/,
    isOfOthers: true,
    needs: needsTc("tc qdisc add dev t0 root netem loss 100%"),
    seed: on(
      "node",
      "tc qdisc add dev out0 root netem loss 100%",
      "tc qdisc del dev out0 root",
    ),
  },
  {
    name: "a filter's action drops",
    fails: ping("db", "10.2.0.1"),
    cause: /filter.*veth|veth.*filter/,
    needs: needsTc(
      "tc qdisc add dev t0 ingress; tc filter add dev t0 ingress protocol ip u32 match u32 0 0 action drop",
    ),
    seed: on(
      "node",
      "tc qdisc add dev $DB ingress; tc filter add dev $DB ingress protocol ip u32 match u32 0 0 action drop",
      "tc qdisc del dev $DB ingress",
    ),
  },
  {
    name: "an uplink that is down",
    fails: ping("web", ROUTER),
    cause: /"out0" is down/,
    seed: on(
      "node",
      "ip link set out0 down",
      "ip link set out0 up; ip addr replace 2001:db8:ff::1/64 dev out0 nodad; " +
        "ip route add default via 192.0.2.2; ip route add default via 2001:db8:ff::2",
    ),
  },
  {
    name: "an uplink without carrier",
    fails: ping("web", ROUTER),
    cause: /"out0" has no carrier/,
    seed: on(
      "router",
      "ip link set eth0 down; while nsenter --net=$NS_NODE ip link show out0 | grep -q 'state UP'; do :; done",
      "ip link set eth0 up; ip addr replace 2001:db8:ff::2/64 dev eth0 nodad; ip route replace 10.2.0.0/24 via 192.0.2.1; " +
        "until nsenter --net=$NS_NODE ip link show out0 | grep -q 'state UP'; do :; done",
    ),
  },
];

/** Links, bridges, neighbours and traffic control that stop packets. */
export const LINKS: readonly FaultRow[] = [
  ...BRIDGES,
  ...NEIGHBOURS,
  ...TRAFFIC,
];
