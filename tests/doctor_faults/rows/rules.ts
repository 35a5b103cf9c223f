/**
 * Rules that drop packets, or take them elsewhere.
 *
 * @module
 */

import { needsLegacyIptables } from "../../_harness/rules.ts";
import { dns, ping, tcp } from "../controls.ts";
import { CACHE, DB, FAR, HOST_PORT, NODE, ROUTER, WEB } from "../fault_node.ts";
import { all, type FaultRow, iptables, on, sysctl, table } from "../row.ts";

const legacy = needsLegacyIptables();

/** Has iptables see what bridges forward. */
const bridgeCalls = sysctl("net/bridge/bridge-nf-call-iptables", 1);

/** Rules of the node that drop packets. */
const DROPS: readonly FaultRow[] = [
  {
    name: "iptables drops what a bridge forwards between its ports",
    fails: ping("db", CACHE),
    cause: /filter FORWARD/,
    seed: all(
      bridgeCalls,
      iptables("-I FORWARD -m physdev --physdev-is-bridged -j DROP"),
    ),
  },
  {
    name: "ebtables drops a container's packets",
    fails: ping("db", CACHE),
    cause: /bridge filter FORWARD/,
    seed: on(
      "node",
      "ebtables-nft -A FORWARD -p IPv4 --ip-src 10.2.0.2 -j DROP",
      "nft delete table bridge filter",
    ),
  },
  {
    name: "ebtables drops frames to a MAC",
    fails: ping("cache", DB),
    cause: /bridge filter FORWARD/,
    seed: on(
      "node",
      "ebtables-nft -A FORWARD -d $MAC_DB -j DROP",
      "nft delete table bridge filter",
    ),
  },
  {
    name: "nftables drops what comes to a bridge",
    fails: ping("db", CACHE),
    cause: /bridge own c/,
    seed: table(
      "bridge",
      "prerouting priority -300",
      `ip daddr ${CACHE} counter drop`,
    ),
  },
  {
    name: "nftables drops what the bridge hands to the node",
    fails: ping("db", "10.2.0.1"),
    cause: /bridge own c/,
    seed: table("bridge", "input", "ip saddr 10.2.0.2 ip protocol icmp drop"),
  },
  {
    name: "nftables drops at the container's device",
    fails: ping("db", FAR),
    cause: /netdev own c/,
    seed: on(
      "node",
      'nft "table netdev own { chain c { type filter hook ingress device $DB priority 0; ip protocol icmp drop; }; }"',
      "nft delete table netdev own",
    ),
  },
  {
    name: "nftables drops at the uplink, on the way out",
    fails: tcp("web", FAR),
    cause: /netdev own c/,
    seed: on(
      "node",
      `nft 'table netdev own { chain c { type filter hook egress device out0 priority 0; ip daddr ${FAR} drop; }; }'`,
      "nft delete table netdev own",
    ),
  },
  {
    name: "nftables drops at the uplink, on the way in",
    fails: ping("web", ROUTER),
    cause: /netdev own c/,
    seed: on(
      "node",
      `nft 'table netdev own { chain c { type filter hook ingress device out0 priority 0; ip saddr ${ROUTER} drop; }; }'`,
      "nft delete table netdev own",
    ),
  },
  {
    name: "the legacy iptables drops in its table raw",
    fails: ping("db", FAR),
    cause: /PREROUTING.* table raw/,
    needs: legacy,
    seed: iptables(
      "-t raw -A PREROUTING -s 10.2.0.0/24 -j DROP",
      "iptables-legacy",
    ),
  },
  {
    name: "the legacy iptables drops in its table mangle",
    fails: tcp("web", FAR),
    cause: /FORWARD.* table mangle/,
    needs: legacy,
    seed: iptables(`-t mangle -A FORWARD -d ${FAR} -j DROP`, "iptables-legacy"),
  },
  {
    name: "a flushed legacy INPUT whose policy still drops",
    fails: ping("db", "10.2.0.1"),
    cause: /-P INPUT DROP.*iptables-legacy/,
    needs: legacy,
    seed: on(
      "node",
      "iptables-legacy -P INPUT DROP",
      "iptables-legacy -P INPUT ACCEPT; iptables-legacy -F",
    ),
  },
  {
    name: "the legacy iptables drops a port",
    fails: tcp("db", FAR),
    cause: /FORWARD.*iptables-legacy/,
    needs: legacy,
    seed: iptables(
      "-A FORWARD -s 10.2.0.0/24 -p tcp --dport 80 -j DROP",
      "iptables-legacy",
    ),
  },
  {
    name: "iptables drops in its table mangle",
    fails: ping("shop", FAR),
    cause: /mangle POSTROUTING/,
    seed: iptables("-t mangle -A POSTROUTING -s 10.3.0.2 -p icmp -j DROP"),
  },
  {
    name: "iptables drops in a chain that others jump to",
    fails: ping("web", ROUTER),
    cause: /filter CUSTOM/,
    seed: on(
      "node",
      "iptables -N CUSTOM; iptables -A FORWARD -j CUSTOM; iptables -A CUSTOM -s 10.1.0.0/28 -p icmp -j DROP",
      "iptables -F CUSTOM; iptables -D FORWARD -j CUSTOM; iptables -X CUSTOM",
    ),
  },
  {
    name: "a set of destinations is dropped",
    fails: ping("web", FAR),
    cause: /ip own c/,
    seed: on(
      "node",
      `nft 'table ip own { set bad { type ipv4_addr; elements = { ${FAR} }; }; chain c { type filter hook forward priority 0; ip daddr @bad drop; }; }'`,
      "nft delete table ip own",
    ),
  },
  {
    name: "a connection to a port is reset",
    fails: tcp("web", FAR),
    cause: /inet own c/,
    seed: table("inet", "forward", "tcp dport 80 reject with tcp reset"),
  },
  {
    name: "what is forwarded is refused with a message",
    fails: ping("db", FAR),
    cause: /inet own c/,
    seed: table(
      "inet",
      "forward",
      `ip daddr ${FAR} reject with icmpx admin-prohibited`,
    ),
  },
  {
    name: "a quota is used up",
    fails: ping("db", FAR),
    cause: /ip own c/,
    seed: table(
      "ip",
      "forward",
      "ip saddr 10.2.0.2 quota over 1 bytes drop",
    ),
  },
  {
    name: "IPv6 is dropped",
    fails: ping("web", "2001:db8:80::80"),
    cause: /ip6 own c/,
    seed: table("ip6", "forward", "ip6 daddr 2001:db8:80::/48 drop"),
  },
  {
    name: "replies are dropped",
    fails: tcp("web", FAR),
    cause: /inet own c/,
    seed: table(
      "inet",
      "forward",
      "iifname out0 ct state established ct direction reply drop",
    ),
  },
  {
    name: "iptables drops what containers send to the node",
    fails: ping("db", "10.2.0.1"),
    cause: /filter INPUT/,
    seed: iptables("-A INPUT -s 10.2.0.0/24 -j DROP"),
  },
  {
    name: "iptables drops what the node sends to a container",
    fails: ping("node", WEB),
    cause: /filter OUTPUT/,
    seed: iptables("-A OUTPUT -d 10.1.0.2 -j DROP"),
  },
  {
    name: "questions to name servers are dropped",
    fails: dns("web", ROUTER),
    cause: /inet own c/,
    seed: table("inet", "forward", "udp dport 53 drop"),
  },
  {
    name: "a rule drops ARP of a container",
    fails: ping("db", "10.2.0.1"),
    cause: /arp own c/,
    seed: all(
      table("arp", "input", "arp saddr ip 10.2.0.2 drop"),
      on("node", "ip neigh flush dev lan0", "true"),
      on("db", "ip neigh flush dev eth0", "true"),
    ),
  },
];

/** Rules of the node that take packets elsewhere. */
const ASTRAY: readonly FaultRow[] = [
  {
    name: "a rule accepts before the masquerade",
    fails: ping("web", FAR),
    cause: /cni_plugins_masquerade (masq_checks|postrouting)/,
    seed: on(
      "node",
      "nft insert rule inet cni_plugins_masquerade masq_checks ip saddr 10.1.0.0/28 accept",
      "nft delete rule inet cni_plugins_masquerade masq_checks handle $(nft -a list chain inet cni_plugins_masquerade masq_checks | sed -n 's/.*10.1.0.0.28 accept # handle //p')",
    ),
  },
  {
    name: "iptables accepts before the masquerade",
    fails: ping("shop", FAR),
    cause: /nat POSTROUTING/,
    seed: iptables("-t nat -I POSTROUTING -s 10.3.0.0/28 -j ACCEPT"),
  },
  {
    name: "a rule translates to an address that the node does not have",
    fails: ping("web", FAR),
    cause: /ip own c/,
    seed: table(
      "ip",
      "nat postrouting priority 90",
      "ip saddr 10.1.0.0/28 snat to 203.0.113.9",
    ),
  },
  {
    name: "replies are not tracked",
    fails: ping("web", FAR),
    cause: /ip own c/,
    seed: table(
      "ip",
      "prerouting priority -300",
      `iifname out0 ip saddr ${FAR} notrack`,
    ),
  },
  {
    name: "replies are tracked in another zone",
    fails: ping("web", FAR),
    cause: /ip own c/,
    seed: table(
      "ip",
      "prerouting priority -300",
      "iifname out0 ct zone set 7",
    ),
  },
  {
    name: "a rule makes packets too old",
    fails: ping("db", FAR),
    cause: /ip own c/,
    seed: table(
      "ip",
      "prerouting priority -150",
      "ip saddr 10.2.0.0/24 ip ttl set 1",
    ),
  },
  {
    name: "questions to name servers are redirected to nobody",
    fails: dns("web", ROUTER),
    cause: /ip own c/,
    seed: table(
      "ip",
      "nat prerouting priority -110",
      "udp dport 53 redirect to :5353",
    ),
  },
  {
    name: "a destination is translated to a pod that is gone",
    fails: tcp("web", FAR),
    cause: /10\.2\.0\.77|ip own c/,
    seed: table(
      "ip",
      "nat prerouting priority -110",
      `ip daddr ${FAR} dnat to 10.2.0.77`,
    ),
  },
  {
    name: "a mark leads to a routing table without a way",
    fails: ping("db", FAR),
    cause: /rule 100|table 99/,
    seed: all(
      table("ip", "prerouting priority -150", "ip saddr 10.2.0.2 mark set 9"),
      on(
        "node",
        "ip rule add fwmark 9 lookup 99 pref 100; ip route add blackhole default table 99",
        "ip rule del pref 100; ip route flush table 99",
      ),
    ),
  },
];

/** Rules on the way to a port of the host. */
const PORTS: readonly FaultRow[] = [
  {
    name: "a port of the host is dropped",
    fails: tcp("router", NODE, HOST_PORT),
    cause: /mangle PREROUTING/,
    seed: iptables(
      `-t mangle -A PREROUTING -i out0 -p tcp --dport ${HOST_PORT} -j DROP`,
    ),
  },
  {
    name: "another rule takes a port of the host",
    fails: tcp("router", NODE, HOST_PORT),
    cause: /ip own c/,
    seed: table(
      "ip",
      "nat prerouting priority -110",
      `tcp dport ${HOST_PORT} dnat to ${CACHE}:9`,
    ),
  },
  {
    name: "iptables takes a port of the host first",
    fails: tcp("router", NODE, HOST_PORT),
    cause: /nat PREROUTING/,
    seed: iptables(
      `-t nat -I PREROUTING -p tcp --dport ${HOST_PORT} -j REDIRECT --to-ports 9`,
    ),
  },
  {
    name: "the translated port is dropped on its way to the container",
    fails: tcp("router", NODE, HOST_PORT),
    cause: /filter FORWARD/,
    seed: iptables("-I FORWARD -d 10.3.0.2 -p tcp --dport 80 -j DROP"),
  },
  {
    name: "the rules of a port of the host are gone",
    fails: tcp("router", NODE, HOST_PORT),
    cause: /default\/shop eth0 .*portmap/,
    seed: on(
      "node",
      "iptables -t nat -S CNI-HOSTPORT-DNAT | grep '^-A' > ${SAVED}nat; iptables -t nat -F CNI-HOSTPORT-DNAT",
      "iptables -t nat -F CNI-HOSTPORT-DNAT; " +
        "sed 's/^/iptables -t nat /' ${SAVED}nat | sh; rm ${SAVED}nat",
    ),
  },
];

/** Rules inside of a container. */
const INSIDE: readonly FaultRow[] = [
  {
    name: "a rule in the container drops what it sends",
    fails: ping("db", FAR),
    cause: /inet own c/,
    seed: table("inet", "output", "ip daddr 203.0.113.0/24 drop", "db"),
  },
  {
    name: "a rule in the container drops what it receives",
    fails: tcp("db", CACHE),
    cause: /inet own c/,
    seed: table("inet", "input", "tcp dport 80 drop", "cache"),
  },
  {
    name: "a rule in the container drops replies",
    fails: tcp("db", FAR),
    cause: /inet own c/,
    seed: table("inet", "input", "ct direction reply drop", "db"),
  },
  {
    name: "a proxy that is gone has left its redirect in the container",
    fails: tcp("db", FAR),
    cause: /ip own c/,
    seed: table(
      "ip",
      "nat output priority -100",
      "tcp dport 80 redirect to :15001",
      "db",
    ),
  },
  {
    name: "iptables in the container drops what it sends",
    fails: ping("web", FAR),
    cause: /filter OUTPUT/,
    seed: iptables("-A OUTPUT -p icmp -j DROP", "iptables", "web"),
  },
  {
    name: "the legacy iptables in the container drops what it sends",
    fails: ping("web", FAR),
    cause: /OUTPUT.*iptables-legacy inside the container/,
    needs: legacy,
    seed: iptables("-A OUTPUT -p icmp -j DROP", "iptables-legacy", "web"),
  },
  {
    name: "a policy of the legacy iptables in the container",
    fails: ping("web", FAR),
    cause: /-P OUTPUT DROP.*inside the container/,
    needs: legacy,
    seed: on(
      "web",
      "iptables-legacy -P OUTPUT DROP",
      "iptables-legacy -P OUTPUT ACCEPT; iptables-legacy -F",
    ),
  },
  {
    name: "a table in the container has the name of the node's firewalld",
    fails: ping("web", FAR),
    cause: /inet firewalld/,
    seed: on(
      "web",
      "nft 'table inet firewalld { chain c { type filter hook output priority 0; policy drop; }; }'",
      "nft delete table inet firewalld",
    ),
  },
];

/** Rules that drop packets, or take them elsewhere. */
export const RULES: readonly FaultRow[] = [
  ...DROPS,
  ...ASTRAY,
  ...PORTS,
  ...INSIDE,
];
