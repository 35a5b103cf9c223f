/**
 * Faults of forwarding: sysctls, chains with a policy, and the node's uplink.
 *
 * @module
 */

import { needsLegacyIptables } from "../../../../tests/_harness/rules.ts";
import {
  both,
  bridged,
  type Fault,
  ip,
  network,
  STATIC,
  withPtp,
} from "../fault.ts";

const { ignore: HAS_NO_LEGACY } = needsLegacyIptables();

/** Fails unless the first rule still drops packets to 10.1.0.9, as a NetworkPolicy might. */
const FIRST_DROPS = "head -n1 | grep -qi '10.1.0.9.* drop'";

/** Faults of forwarding: sysctls, chains with a policy, and the node's uplink. */
export const FORWARDING_FAULTS: readonly Fault[] = [
  {
    name: "IPv4 is not forwarded",
    checks: ["ip-forward"],
    message: /net.ipv4.ip_forward is 0, and 2 interfaces/,
    seed: ip(
      "echo 0 > /proc/sys/net/ipv4/ip_forward",
      "echo 1 > /proc/sys/net/ipv4/ip_forward",
    ),
    follow: true,
  },
  {
    name: "IPv6 is not forwarded",
    checks: ["ip-forward"],
    message: /net.ipv6.conf.all.forwarding is 0, and 1 interface .*uses IPv6/,
    seed: ip(
      "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding",
      "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
    ),
    follow: true,
  },
  {
    name: "IPv6 forwarding is off on a node with a router that advertises",
    checks: ["ip-forward"],
    message: /net.ipv6.conf.all.forwarding is 0, and 1 interface .*uses IPv6/,
    // Otherwise the node would lose the router.
    command:
      /^sysctl -w net\/ipv6\/conf\/out0\/accept_ra=2 && sysctl -w net.ipv6.conf.all.forwarding=1$/m,
    seed: ip(
      "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding; ip address add 2001:db8:77::7/64 dev out0 valid_lft 1000 preferred_lft 1000",
      "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; ip address del 2001:db8:77::7/64 dev out0; echo 1 > /proc/sys/net/ipv6/conf/out0/accept_ra",
    ),
    follow: true,
  },
  {
    name: "the IPv6 router is ignored",
    checks: ["router-ignored"],
    message:
      /the node has no IPv6 default route: "out0" ignores router advertisements/,
    seed: ip(
      "ip -6 route del default; ip address add 2001:db8:77::7/64 dev out0 valid_lft 1000 preferred_lft 1000",
      "ip -6 route add default via 2001:db8:ff::2; ip address del 2001:db8:77::7/64 dev out0; echo 1 > /proc/sys/net/ipv6/conf/out0/accept_ra",
    ),
    follow: true,
  },
  {
    name: "an outbound address that the host does not have",
    checks: ["outbound-address"],
    message:
      /the outbound address 192.0.2.10 is in the subnet 192.0.2.0\/24 of "out0", and the host does not have it/,
    seed: both(
      network(({ hosts }) => ({
        type: "ptp",
        ipMasq: true,
        outboundAddresses: ["192.0.2.10", "2001:db8:ff::1"],
        ipam: hosts.hostLocal("10.77.0.0/24", "fd00:77::/64"),
      })),
      ip("true", "ip address del 192.0.2.10/32 dev out0 2>/dev/null || true"),
    ),
    follow: true,
  },
  {
    name: "strict reverse path filtering against a route",
    checks: ["packet-ends", "subnet-host"],
    message: /the route back to 10.2.0.2 is over "out0" instead of "lan0"/,
    seed: ip(
      "echo 1 > /proc/sys/net/ipv4/conf/lan0/rp_filter; ip route add 10.2.0.2 dev out0",
      "echo 0 > /proc/sys/net/ipv4/conf/lan0/rp_filter; ip route del 10.2.0.2 dev out0",
    ),
  },
  {
    name: "kube-proxy does not see what a bridge forwards",
    checks: ["bridge-nf-call"],
    message: /bridge-nf-call-iptables (is 0|does not exist)/,
    seed: ip(
      "nft add table ip kube-proxy; f=/proc/sys/net/bridge/bridge-nf-call-iptables; test ! -e $f || echo 0 > $f",
      "nft delete table ip kube-proxy; f=/proc/sys/net/bridge/bridge-nf-call-iptables; test ! -e $f || echo 1 > $f",
    ),
  },
  {
    name: "an isolated bridge whose packets pass no rules",
    checks: ["bridge-nf-call"],
    message:
      /bridge-nf-call-iptables .*, but "more" has the ingress policy isolated/,
    seed: (scene) => {
      const key = "/proc/sys/net/bridge/bridge-nf-call-iptables";
      const set = (value: number): string =>
        scene.sh(`test ! -e ${key} || echo ${value} > ${key}`);
      set(0);
      const path = scene.writeNetwork("30-more", [
        { type: "bridge", bridge: "br9", ipam: STATIC },
        { type: "firewall", ingressPolicy: "isolated" },
      ]);
      return () => {
        Deno.removeSync(path);
        set(1);
      };
    },
  },
  {
    name: "a forward chain of nftables with policy drop",
    checks: ["forward-policy"],
    message: /"inet fw f1" \(forward\) has policy drop, and no rule accepts/,
    seed: ip(
      "nft 'table inet fw { chain f1 { type filter hook forward priority 0; policy drop; ip daddr 10.1.0.9 drop; ct state established accept; }; }'",
      `nft list chain inet fw f1 | grep 'ip [sd]addr' | ${FIRST_DROPS}; ` +
        "nft delete table inet fw",
    ),
    follow: true,
  },
  {
    name: "a forward chain of nftables that ends with drop",
    checks: ["forward-policy"],
    message: /rule \d+ of .*"inet fw f1" \(forward\) drops packets$/m,
    seed: ip(
      "nft 'table inet fw { chain f1 { type filter hook forward priority 0; ip daddr 10.1.0.9 drop; ct state established accept; drop; }; }'",
      `nft list chain inet fw f1 | grep 'ip [sd]addr' | ${FIRST_DROPS}; ` +
        "nft delete table inet fw",
    ),
    follow: true,
  },
  {
    name: "a forward chain like firewalld's",
    checks: ["forward-policy"],
    message: /rule \d+ of .*filter_FORWARD" \(forward\) drops packets$/m,
    seed: ip(
      "nft 'table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; ct state established accept; iifname \"docker0\" accept; reject with icmpx admin-prohibited; }; }'",
      "nft delete table inet firewalld",
    ),
  },
  {
    name: "FORWARD of iptables-nft with policy drop",
    checks: ["forward-policy"],
    message: /"ip filter FORWARD" \(forward\) has policy drop/,
    seed: ip(
      "iptables-nft -P FORWARD DROP; iptables-nft -A FORWARD -d 10.1.0.9 -j DROP",
      `iptables-nft -S FORWARD | grep '^-A' | ${FIRST_DROPS}; ` +
        "nft delete table ip filter",
    ),
    follow: true,
  },
  {
    name: "FORWARD of iptables-nft that ends with a rejection",
    checks: ["forward-policy"],
    message: /rule \d+ of .*"ip filter FORWARD" \(forward\) drops packets$/m,
    seed: ip(
      "iptables-nft -A FORWARD -d 10.1.0.9 -j DROP; iptables-nft -A FORWARD -j REJECT",
      `iptables-nft -S FORWARD | grep '^-A' | ${FIRST_DROPS}; ` +
        "nft delete table ip filter",
    ),
    follow: true,
  },
  {
    name: "FORWARD of iptables-legacy with policy drop",
    checks: ["forward-policy"],
    message:
      /"-P FORWARD DROP" in table filter of iptables-legacy drops packets/,
    ignore: HAS_NO_LEGACY,
    command:
      /^iptables-legacy -A FORWARD -s \S+ -j ACCEPT; iptables-legacy -A FORWARD -d /m,
    seed: ip(
      "iptables-legacy -P FORWARD DROP; iptables-legacy -A FORWARD -d 10.1.0.9 -j DROP",
      `iptables-legacy -S FORWARD | grep '^-A' | ${FIRST_DROPS}; ` +
        // A policy that accepts everything would open the node.
        "iptables-legacy -S FORWARD | grep -q '^-P FORWARD DROP'; " +
        "iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F",
    ),
    follow: true,
  },
  {
    name: "FORWARD of iptables-legacy that ends with a drop",
    checks: ["forward-policy"],
    message:
      /"-A FORWARD -j DROP" in table filter of iptables-legacy drops packets/,
    ignore: HAS_NO_LEGACY,
    command:
      /^iptables-legacy -I FORWARD 2 -s \S+ -j ACCEPT; iptables-legacy -I FORWARD 2 -d /m,
    seed: ip(
      "iptables-legacy -A FORWARD -d 10.1.0.9 -j DROP; iptables-legacy -A FORWARD -j DROP",
      `iptables-legacy -S FORWARD | grep '^-A' | ${FIRST_DROPS}; ` +
        "iptables-legacy -F",
    ),
    follow: true,
  },
  {
    name: "IPv6 disabled with an IPv6 range",
    checks: ["ipv6-disabled"],
    message: /net.ipv6.conf.default.disable_ipv6 is 1/,
    seed: ip(
      "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
      "echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
    ),
    follow: true,
  },
  {
    name: "IPv6 disabled on a bridge with an IPv6 range",
    checks: ["ipv6-disabled"],
    message: /net\/ipv6\/conf\/br9|net.ipv6.conf.br9.disable_ipv6 is 1/,
    seed: both(
      bridged(["fd00:9::/64"]),
      ip(
        "ip link add br9 up type bridge; echo 1 > /proc/sys/net/ipv6/conf/br9/disable_ipv6",
        "ip link del br9",
      ),
    ),
    follow: true,
  },
  {
    name: "a sysctl that containers do not have",
    checks: ["sysctl-missing"],
    message:
      /has no net.core.nosuch in containers, which tuning of "more" sets/,
    seed: withPtp({
      type: "tuning",
      sysctl: {
        "net.core.nosuch": "1",
        "net.core.somaxconn": "500",
        "net.ipv4.conf.eth0.arp_filter": "1",
      },
    }),
  },
  {
    name: "a prerouting chain with policy drop",
    checks: ["rule-drops"],
    message: /"ip fw pre" \(prerouting\) has policy drop/,
    seed: ip(
      "nft 'table ip fw { chain pre { type filter hook prerouting priority -300; policy drop; ct state established accept; icmp type echo-reply accept; iifname \"out0\" accept; }; }'",
      "nft delete table ip fw",
    ),
  },
  {
    name: "no default route on the node",
    checks: ["uplink"],
    message: /the node has no IPv4 default route/,
    seed: ip(
      "ip route del default via 192.0.2.2",
      "ip route add default via 192.0.2.2",
    ),
  },
  {
    name: "no link to the outside, although a network masquerades",
    checks: ["uplink"],
    message: /^the node has no IPv4 default route$/,
    seed: ip(
      "ip addr flush dev out0 scope global",
      "ip addr add 192.0.2.1/24 dev out0; ip addr add 2001:db8:ff::1/64 dev out0 nodad; ip route replace default via 192.0.2.2; ip route replace default via 2001:db8:ff::2",
    ),
  },
  {
    name: "an uplink that is down",
    checks: ["uplink"],
    message: /the node has no IPv4 default route, and "out0" is down/,
    seed: ip(
      "ip link set out0 down",
      "ip link set out0 up; ip addr replace 2001:db8:ff::1/64 dev out0 nodad; ip route add default via 192.0.2.2; ip route add default via 2001:db8:ff::2; " +
        "until ip link show out0 | grep -q 'state UP'; do :; done",
    ),
  },
  {
    name: "an uplink without carrier",
    checks: ["uplink", "packet-ends"],
    message: /the uplink "out0" has no carrier/,
    seed: ip(
      // The kernel tells the other end a little later.
      "nsenter --net=$outside ip link set eth0 down; while ip link show out0 | grep -q 'state UP'; do :; done",
      "nsenter --net=$outside sh -c 'ip link set eth0 up; ip addr replace 2001:db8:ff::2/64 dev eth0 nodad'; until ip link show out0 | grep -q 'state UP'; do :; done",
    ),
  },
];
