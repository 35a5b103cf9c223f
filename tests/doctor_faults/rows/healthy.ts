/**
 * Nodes of different kinds on which nothing is wrong.
 *
 * @module
 */

import { VERSIONS } from "../../../cli/doctor/testing/fault.ts";
import type { Needs } from "../../../testing/capabilities.ts";
import { needsLegacyIptables } from "../../_harness/rules.ts";
import { all, on, type Seed, sysctl } from "../row.ts";

/** A kind of node. */
export interface HealthyRow {
  readonly name: string;
  readonly seed: Seed;
  readonly needs?: Needs;
  /** The rule that `--pod web --to db` names as the cause of lost pings. */
  readonly drops?: RegExp;
}

/** Runs commands of iptables, one per line, and deletes the tables that did not exist before. */
function rules(lines: string, more = "true", undo = "true"): Seed {
  const saved = "${SAVED}iptables";
  const commands = lines.trim().split("\n").map((line) => `iptables ${line}`);
  return on(
    "node",
    [`iptables-save > ${saved}`, more, ...commands].join("\n"),
    `iptables -P FORWARD ACCEPT; iptables -P INPUT ACCEPT; ` +
      "for t in filter nat mangle raw; do " +
      'grep -q "^.$t" ' + saved + " || nft delete table ip $t; done; " +
      `iptables-restore < ${saved}; rm ${saved}; ${undo}`,
  );
}

/** Runs commands of the legacy iptables, one per line, and deletes all rules of the table. */
function legacyRules(lines: string): Seed {
  const commands = lines.trim().split("\n")
    .map((line) => `iptables-legacy ${line}`);
  return on(
    "node",
    commands.join("\n"),
    "iptables-legacy -P INPUT ACCEPT; iptables-legacy -P OUTPUT ACCEPT; " +
      "iptables-legacy -F; iptables-legacy -X",
  );
}

const legacy = needsLegacyIptables();

/** Adds a third-party plugin to a cached attachment, as its runtime would have called it. */
function chained(name: string, type: string): Seed {
  return ({ scene }) => {
    const path = `${scene.cacheDir}/results/${name}`;
    const text = Deno.readTextFileSync(path);
    const document = JSON.parse(text);
    const config = JSON.parse(atob(document.config));
    config.plugins.push({ type });
    document.config = btoa(JSON.stringify(config));
    Deno.writeTextFileSync(path, JSON.stringify(document));
    const plugin = `${scene.hosts.path}/${type}`;
    Deno.writeTextFileSync(plugin, VERSIONS, { mode: 0o755 });
    return () => {
      Deno.writeTextFileSync(path, text);
      Deno.removeSync(plugin);
    };
  };
}

function nft(text: string, undo: string): Seed {
  return on("node", `nft -f - <<'END'\n${text}\nEND`, undo);
}

/** Nodes of different kinds on which nothing is wrong. */
export const HEALTHY: readonly HealthyRow[] = [
  {
    name: "docker, and an operator's rules in DOCKER-USER",
    seed: rules(
      `
-P FORWARD DROP
-N DOCKER
-N DOCKER-USER
-N DOCKER-ISOLATION-STAGE-1
-N DOCKER-ISOLATION-STAGE-2
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -s 10.1.0.0/28 -j ACCEPT
-A DOCKER-USER -d 10.1.0.0/28 -j ACCEPT
-A DOCKER-USER -s 10.2.0.0/24 -j ACCEPT
-A DOCKER-USER -d 10.2.0.0/24 -j ACCEPT
-A DOCKER-USER -s 10.3.0.0/28 -j ACCEPT
-A DOCKER-USER -d 10.3.0.0/28 -j ACCEPT
-A DOCKER-USER -j RETURN
-t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE`,
      "ip link add docker0 up type bridge; ip addr add 172.17.0.1/16 dev docker0",
      "ip link del docker0",
    ),
  },
  {
    name: "ufw, which forwards",
    seed: rules(`
-P INPUT DROP
-N ufw-before-input
-N ufw-user-input
-N ufw-before-forward
-A INPUT -j ufw-before-input
-A INPUT -j ufw-user-input
-A FORWARD -j ufw-before-forward
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -p icmp --icmp-type 8 -j ACCEPT
-A ufw-user-input -p tcp --dport 22 -j ACCEPT
-A ufw-user-input -s 10.0.0.0/8 -j ACCEPT
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-forward -p icmp --icmp-type 8 -j ACCEPT`),
  },
  {
    name: "ufw by the legacy iptables, which serves only SSH",
    needs: legacy,
    seed: legacyRules(`
-P INPUT DROP
-N ufw-before-input
-N ufw-user-input
-A INPUT -j ufw-before-input
-A INPUT -j ufw-user-input
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -p icmp --icmp-type 8 -j ACCEPT
-A ufw-user-input -p tcp --dport 22 -j ACCEPT`),
  },
  {
    name: "a legacy INPUT that ends with a drop in a chain of its own",
    needs: legacy,
    seed: legacyRules(`
-N own
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p icmp -j ACCEPT
-A INPUT -m comment --comment "ports -s -i" -j own
-A own -m comment --comment "not -s served" -j REJECT`),
  },
  {
    name: "kube-router, which drops pings by a NetworkPolicy",
    drops: /KUBE-POD-FW-A/,
    seed: rules(`
-N KUBE-ROUTER-FORWARD
-N KUBE-POD-FW-A
-N KUBE-NWPLCY-A
-I FORWARD -j KUBE-ROUTER-FORWARD
-A KUBE-ROUTER-FORWARD -s 10.1.0.2 -j KUBE-POD-FW-A
-A KUBE-POD-FW-A -j KUBE-NWPLCY-A
-A KUBE-NWPLCY-A ! -p icmp -j MARK --set-xmark 0x10000/0x10000
-A KUBE-POD-FW-A -m mark ! --mark 0x10000/0x10000 -j REJECT`),
  },
  {
    name: "Calico by the legacy iptables, which drops pings by a NetworkPolicy",
    drops: /-A cali-fw-web .*-j DROP/,
    needs: legacy,
    seed: legacyRules(`
-N cali-FORWARD
-N cali-fw-web
-A FORWARD -j cali-FORWARD
-A cali-FORWARD -s 10.1.0.2 -j cali-fw-web
-A cali-fw-web -p icmp -m comment --comment "Drop if no policies passed packet" -j DROP`),
  },
  {
    name: "Cilium, chained after bridge, drops pings by a NetworkPolicy",
    seed: all(
      chained("lan-fedcba9876543210-eth0", "cilium-cni"),
      on(
        "node",
        "tc qdisc add dev $DB clsact; tc filter add dev $DB ingress " +
          "bpf da bytecode '4,48 0 0 23,21 0 1 1,6 0 0 2,6 0 0 0'",
        "tc qdisc del dev $DB clsact",
      ),
    ),
  },
  {
    name: "a table of NetworkPolicies that drops pings",
    drops: /inet kube-network-policies postrouting/,
    seed: nft(
      `table inet kube-network-policies {
  chain postrouting { type filter hook postrouting priority srcnat - 5; ip saddr 10.1.0.2 icmp type echo-request drop; }
}`,
      "nft delete table inet kube-network-policies",
    ),
  },
  {
    name: "firewalld, with the pods in its trusted zone",
    seed: nft(
      `table inet firewalld {
  chain filter_INPUT {
    type filter hook input priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_INPUT_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_FORWARD {
    type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_FORWARD_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_INPUT_ZONES {
    ip saddr 10.1.0.0/28 goto filter_IN_trusted
    ip saddr 10.2.0.0/24 goto filter_IN_trusted
    ip saddr 10.3.0.0/28 goto filter_IN_trusted
    ip6 saddr fd00:1::/64 goto filter_IN_trusted
    goto filter_IN_public
  }
  chain filter_FORWARD_ZONES {
    ip saddr 10.1.0.0/28 goto filter_IN_trusted
    ip saddr 10.2.0.0/24 goto filter_IN_trusted
    ip saddr 10.3.0.0/28 goto filter_IN_trusted
    ip6 saddr fd00:1::/64 goto filter_IN_trusted
    goto filter_FWD_public
  }
  chain filter_IN_trusted { accept; }
  chain filter_IN_public {
    tcp dport 22 accept
    meta l4proto { icmp, ipv6-icmp } accept
  }
  chain filter_FWD_public { meta l4proto { icmp, ipv6-icmp } accept; }
}`,
      "nft delete table inet firewalld",
    ),
  },
  {
    name: "kube-proxy by iptables",
    seed: rules(`
-N KUBE-FORWARD
-N KUBE-FIREWALL
-N KUBE-SERVICES
-N KUBE-NODEPORTS
-N KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-SERVICES -d 10.96.7.7/32 -p tcp --dport 80 -j REJECT
-t nat -N KUBE-SERVICES
-t nat -N KUBE-SVC-A
-t nat -N KUBE-SEP-A
-t nat -N KUBE-MARK-MASQ
-t nat -N KUBE-POSTROUTING
-t nat -A PREROUTING -j KUBE-SERVICES
-t nat -A OUTPUT -j KUBE-SERVICES
-t nat -A POSTROUTING -j KUBE-POSTROUTING
-t nat -A KUBE-SERVICES -d 10.96.0.10/32 -p udp --dport 53 -j KUBE-SVC-A
-t nat -A KUBE-SVC-A ! -s 10.2.0.0/24 -d 10.96.0.10/32 -p udp --dport 53 -j KUBE-MARK-MASQ
-t nat -A KUBE-SVC-A -j KUBE-SEP-A
-t nat -A KUBE-SEP-A -s 10.2.0.3/32 -j KUBE-MARK-MASQ
-t nat -A KUBE-SEP-A -p udp -j DNAT --to-destination 10.2.0.3:53
-t nat -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-t nat -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-t nat -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-t nat -A KUBE-POSTROUTING -j MASQUERADE --random-fully`),
  },
  {
    name: "kube-proxy by IPVS",
    seed: all(
      on(
        "node",
        "ip link add kube-ipvs0 type bridge; ip addr add 10.96.0.1/32 dev kube-ipvs0; ip addr add 10.96.0.10/32 dev kube-ipvs0",
        "ip link del kube-ipvs0",
      ),
      sysctl("net/ipv4/conf/all/arp_ignore", 1),
      sysctl("net/ipv4/conf/all/arp_announce", 2),
    ),
  },
  {
    name: "kube-proxy by nftables",
    seed: nft(
      `table ip kube-proxy {
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.96.0.10 . udp . 53 : goto service-dns }
  }
  map no-endpoint-services {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.96.7.7 . tcp . 80 : goto reject-chain }
  }
  set cluster-ips { type ipv4_addr; elements = { 10.96.0.1, 10.96.0.10, 10.96.7.7 }; }
  chain filter-prerouting { type filter hook prerouting priority dstnat - 10; ct state new jump firewall-check; }
  chain filter-forward { type filter hook forward priority -110; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }
  chain filter-input { type filter hook input priority -110; ct state new jump service-endpoints-check; }
  chain filter-output { type filter hook output priority -110; ct state new jump service-endpoints-check; ct state new jump firewall-check; }
  chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
  chain firewall-check { }
  chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
  chain service-dns { meta l4proto udp dnat to 10.2.0.3:53; }
  chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
  chain cluster-ips-check { ip daddr @cluster-ips reject; }
  chain reject-chain { reject; }
  chain masquerading { mark and 0x4000 == 0 return; mark set mark xor 0x4000; masquerade fully-random; }
}`,
      "nft delete table ip kube-proxy",
    ),
  },
  {
    name: "what Cilium has left",
    seed: all(
      on(
        "node",
        "ip link add cilium_host type veth peer name cilium_net; ip link set cilium_host up; ip link set cilium_net up; " +
          "ip addr add 10.0.9.1/32 dev cilium_host; ip route add 10.0.9.0/24 dev cilium_host; " +
          "ip rule add fwmark 0x200/0xf00 lookup 2004 pref 9; ip route add local default dev lo table 2004; " +
          "ip rule add fwmark 0xa00/0xf00 lookup 2005 pref 10; ip route add 10.0.9.1 dev cilium_host table 2005; " +
          "tc qdisc add dev out0 clsact; tc filter add dev out0 ingress bpf da bytecode '1,6 0 0 0'; tc filter add dev out0 egress bpf da bytecode '1,6 0 0 0'",
        "tc qdisc del dev out0 clsact; ip rule del pref 9; ip rule del pref 10; ip route flush table 2004; ip route flush table 2005; ip link del cilium_host",
      ),
      rules(`
-N CILIUM_INPUT
-N CILIUM_FORWARD
-A INPUT -j CILIUM_INPUT
-A FORWARD -j CILIUM_FORWARD
-A CILIUM_INPUT -m mark --mark 0x200/0xf00 -j ACCEPT
-A CILIUM_FORWARD -o cilium_host -j ACCEPT
-A CILIUM_FORWARD -i cilium_host -j ACCEPT
-t raw -N CILIUM_PRE_raw
-t raw -A PREROUTING -j CILIUM_PRE_raw
-t raw -A CILIUM_PRE_raw -m mark --mark 0x200/0xf00 -j CT --notrack`),
    ),
  },
  {
    name: "containers and node ignore pings",
    seed: all(
      sysctl("net/ipv4/icmp_echo_ignore_all", 1),
      sysctl("net/ipv4/icmp_echo_ignore_all", 1, "web"),
      sysctl("net/ipv4/icmp_echo_ignore_all", 1, "db"),
    ),
  },
  {
    name: "a router that ignores pings",
    seed: sysctl("net/ipv4/icmp_echo_ignore_all", 1, "router"),
  },
  {
    name: "Tailscale",
    seed: all(
      on(
        "node",
        "ip link add tailscale0 type veth peer name ts-far; ip link set tailscale0 up; ip link set ts-far up; ip addr add 100.100.1.1/32 dev tailscale0; " +
          "ip rule add fwmark 0x80000/0xff0000 lookup main pref 5210; ip rule add fwmark 0x80000/0xff0000 lookup default pref 5230; " +
          "ip rule add fwmark 0x80000/0xff0000 unreachable pref 5250; ip rule add lookup 52 pref 5270; ip route add 100.100.1.2 dev tailscale0 table 52",
        "for p in 5210 5230 5250 5270; do ip rule del pref $p; done; ip link del tailscale0",
      ),
      rules(`
-N ts-input
-N ts-forward
-I INPUT -j ts-input
-I FORWARD -j ts-forward
-A ts-input -s 100.100.1.1/32 -i lo -j ACCEPT
-A ts-input -s 100.64.0.0/10 ! -i tailscale0 -j DROP
-A ts-forward -i tailscale0 -j MARK --set-xmark 0x40000/0xff0000
-A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT
-A ts-forward -s 100.64.0.0/10 -o tailscale0 -j DROP
-A ts-forward -o tailscale0 -j ACCEPT`),
    ),
  },
  {
    name: "strict reverse path filtering, with one uplink",
    seed: sysctl("net/ipv4/conf/all/rp_filter", 1),
  },
  {
    name: "an uplink below a bridge that has its addresses",
    seed: on(
      "node",
      "ip link add br0 type bridge; ip link set br0 address $(cat /sys/class/net/out0/address 2>/dev/null || ip -o link show out0 | sed 's/.*ether //; s/ .*//'); " +
        "ip link set br0 up; ip addr flush dev out0 scope global; ip link set out0 master br0; " +
        "ip addr add 192.0.2.1/24 dev br0; ip addr add 2001:db8:ff::1/64 dev br0 nodad; " +
        "ip route replace default via 192.0.2.2; ip -6 route replace default via 2001:db8:ff::2",
      "ip link del br0; ip addr add 192.0.2.1/24 dev out0; ip addr add 2001:db8:ff::1/64 dev out0 nodad; " +
        "ip route replace default via 192.0.2.2; ip -6 route replace default via 2001:db8:ff::2",
    ),
  },
  {
    name: "addresses and ports that are blocked on purpose",
    seed: rules(`
-I FORWARD -d 169.254.169.254/32 -j DROP
-I FORWARD -p tcp --dport 25 -j REJECT
-I INPUT -s 198.18.0.0/15 -j DROP
-I INPUT -p tcp --dport 22 -m conntrack --ctstate NEW -m limit --limit 1/sec -j ACCEPT
-A INPUT -p tcp --dport 22 -m conntrack --ctstate NEW -j DROP`),
  },
  {
    name: "libvirt",
    seed: rules(
      `
-N LIBVIRT_FWI
-N LIBVIRT_FWO
-N LIBVIRT_FWX
-A FORWARD -j LIBVIRT_FWX
-A FORWARD -j LIBVIRT_FWI
-A FORWARD -j LIBVIRT_FWO
-A LIBVIRT_FWI -d 192.168.122.0/24 -o virbr0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A LIBVIRT_FWI -o virbr0 -j REJECT
-A LIBVIRT_FWO -s 192.168.122.0/24 -i virbr0 -j ACCEPT
-A LIBVIRT_FWO -i virbr0 -j REJECT
-A LIBVIRT_FWX -i virbr0 -o virbr0 -j ACCEPT`,
      "ip link add virbr0 up type bridge; ip addr add 192.168.122.1/24 dev virbr0",
      "ip link del virbr0",
    ),
  },
  {
    name: "a cache of names on each node",
    seed: rules(
      `
-t raw -A PREROUTING -d 169.254.20.10/32 -p udp --dport 53 -j CT --notrack
-t raw -A OUTPUT -s 169.254.20.10/32 -p udp --sport 53 -j CT --notrack
-A INPUT -d 169.254.20.10/32 -p udp --dport 53 -j ACCEPT`,
      "ip link add nodelocaldns type bridge; ip addr add 169.254.20.10/32 dev nodelocaldns",
      "ip link del nodelocaldns",
    ),
  },
  {
    name: "packets that are invalid are dropped",
    seed: nft(
      `table inet own {
  chain f { type filter hook forward priority 0; policy accept; ct state invalid counter drop; tcp flags & (fin|syn|rst|ack) != syn ct state new drop; }
  chain p { type filter hook prerouting priority -300; fib saddr . iif oif missing drop; }
}`,
      "nft delete table inet own",
    ),
  },
  {
    name: "a second uplink with a table of its own",
    seed: on(
      "node",
      "ip link add up1 type veth peer name up2; ip link set up1 up; ip link set up2 up; ip addr add 198.51.100.1/24 dev up1; " +
        "ip rule add from 198.51.100.1 lookup 20 pref 100; ip route add default via 198.51.100.2 dev up1 table 20",
      "ip rule del pref 100; ip link del up1",
    ),
  },
  {
    name: "a limit for the uplink",
    seed: on(
      "node",
      "tc qdisc add dev out0 root handle 1: htb default 1; tc class add dev out0 parent 1: classid 1:1 htb rate 1gbit",
      "tc qdisc del dev out0 root",
    ),
  },
  {
    name: "a static neighbour that is right",
    seed: on(
      "node",
      "ip neigh replace 192.0.2.2 lladdr $(nsenter --net=$NS_ROUTER ip -o link show eth0 | sed 's/.*ether //; s/ .*//') dev out0 nud permanent",
      "ip neigh del 192.0.2.2 dev out0",
    ),
  },
  {
    name: "a runtime begins to write a cached result",
    seed({ scene }): () => void {
      const path = `${scene.cacheDir}/results/pods-y-eth0`;
      Deno.writeTextFileSync(path, "");
      // Later than the end of all other rows.
      const later = new Date(Date.now() + 3_600_000);
      Deno.utimeSync(path, later, later);
      return () => Deno.removeSync(path);
    },
  },
];
