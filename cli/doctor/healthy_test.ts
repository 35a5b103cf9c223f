/** Nodes of different kinds on which nothing is wrong: `cni doctor` says so. */
import { assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import type { CniFlags } from "../flags.ts";
import { DoctorScene } from "./testing/scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";

const NEEDS = allOf(needsRuleTools, needsInetRules);
const ID = "0123456789abcdef", OTHER = "fedcba9876543210";

/** A node. */
interface Kind {
  readonly name: string;
  readonly set: (scene: DoctorScene) => void | Promise<void>;
}

/** An IPAM configuration with default routes. */
function ipam({ hosts }: DoctorScene, ...subnets: string[]): object {
  return {
    ...hosts.hostLocal(...subnets),
    routes: subnets.map((subnet) => ({
      dst: subnet.includes(":") ? "::/0" : "0.0.0.0/0",
    })),
  };
}

/** Writes a masqueraded network with 10.1.0.0/24. */
function writeMasqueraded(scene: DoctorScene): void {
  scene.writeNetwork("10-pods", [{
    type: "bridge",
    bridge: "cni0",
    isGateway: true,
    ipMasq: true,
    ipam: scene.hosts.hostLocal("10.1.0.0/24"),
  }]);
}

const KINDS: readonly Kind[] = [
  {
    name: "a new node: a network, no container, no directory for leases",
    set: (scene) => {
      scene.writeNetwork("10-pods", [{
        type: "bridge",
        bridge: "cni0",
        isDefaultGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam: scene.hosts.hostLocal("10.1.0.0/24"),
      }, { type: "portmap", capabilities: { portMappings: true } }]);
    },
  },
  {
    name: "CRI-O's own loopback, without a name",
    set: (scene) => {
      writeMasqueraded(scene);
      const conf = { cniVersion: "1.0.0", type: "loopback" };
      scene.writeConf("99-loopback.conf", JSON.stringify(conf));
    },
  },
  {
    name: "a node that does not track connections of its own",
    set: (scene) => {
      writeMasqueraded(scene);
      const raw = "type filter hook prerouting priority raw";
      scene.sh(`nft -f - <<'END'
table ip own {
  chain dns { ${raw}; ip daddr 169.254.20.10 udp dport 53 notrack; }
  chain pods { ${raw}; ip saddr 10.1.0.0/24 ip daddr 10.1.0.0/24 notrack; }
  chain rest { ${raw}; ip saddr 10.1.0.0/24 accept; notrack; }
  chain back { ip saddr 10.1.0.0/24 return; notrack; }
  chain jumps { ${raw}; jump back; }
  chain leaves { ${raw}; ip saddr 10.1.0.0/24 goto empty; notrack; }
  chain empty { }
  chain late { type filter hook prerouting priority filter; notrack; }
  chain node { type filter hook output priority raw; notrack; }
}
END`);
    },
  },
  {
    name: "a node with policies of IPsec for others",
    set: (scene) => {
      writeMasqueraded(scene);
      scene.sh(`add() { ip xfrm policy add "$@"; }
add src 10.1.0.0/24 dst 192.0.2.0/24 dir out action block
add src 10.1.0.0/24 dst 0.0.0.0/0 proto udp dir out action block
add src 10.1.0.0/24 dst 0.0.0.0/0 dir fwd mark 7 action block
add src 172.16.0.0/12 dst 0.0.0.0/0 dir fwd action block
add src 0.0.0.0/0 dst 10.1.0.0/24 dir in action block
add src 10.1.0.0/25 dst 0.0.0.0/0 dir fwd action block`);
    },
  },
  {
    name: "dual-stack pods behind a bridge, with ports",
    set: async (scene) => {
      scene.writeNetwork("10-pods", [{
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        ipMasq: true,
        ipMasqBackend: "nftables",
        ipam: ipam(scene, "10.1.0.0/24", "fd00:1::/64"),
      }, {
        type: "portmap",
        backend: "nftables",
        capabilities: { portMappings: true },
      }]);
      for (
        const [at, id] of [ID, OTHER].entries()
      ) {
        const netns = at === 0 ? scene.hosts.sandbox : scene.other;
        const portMappings = [{
          hostPort: 8080 + at,
          containerPort: 80,
          protocol: "tcp",
        }];
        const more = { capabilityArgs: { portMappings } };
        await scene.attach("10-pods", netns, id, `pod${at}`, more);
      }
    },
  },
  {
    name: "IPv6 only, on a node without an IPv4 default route",
    set: async (scene) => {
      scene.ip("route del default");
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipam: ipam(scene, "fd00:1::/64"),
      }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "a node without any way out",
    set: async (scene) => {
      scene.sh("ip link del out0");
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipam: ipam(scene, "10.1.0.0/24"),
      }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "macvlan on the uplink",
    set: async (scene) => {
      scene.writeNetwork("10-pods", [{
        type: "macvlan",
        master: "out0",
        ipam: {
          type: "static",
          addresses: [{ address: "192.0.2.50/24", gateway: "192.0.2.2" }],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "a closed forward chain that the plugin firewall opens",
    set: async (scene) => {
      scene.sh("iptables-nft -P FORWARD DROP");
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipam: ipam(scene, "10.1.0.0/24"),
      }, { type: "firewall", backend: "iptables" }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "kube-proxy's and another firewall's rules",
    set: async (scene) => {
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipam: ipam(scene, "10.1.0.0/24"),
      }]);
      scene.sh(
        "nft 'table ip kube-proxy { chain pre { type nat hook prerouting priority dstnat; ip daddr 10.96.0.10 udp dport 53 dnat to 10.1.0.7:53; }; };" +
          " table inet fw { chain f1 { type filter hook input priority 0; policy drop; ct state established,related accept; iif lo accept; icmp type echo-request accept; meta l4proto ipv6-icmp accept; };" +
          " chain f2 { type filter hook forward priority 0; policy drop; ct state established,related accept; ip saddr 10.1.0.0/24 accept; };" +
          " chain f3 { type filter hook prerouting priority -150; ip saddr 203.0.113.0/24 drop; tcp dport 23 drop; ct state invalid drop; }; }'",
      );
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "two uplinks of different metrics",
    set: async (scene) => {
      scene.sh(
        "ip link add up1 up type veth peer name up2; ip link set up2 up; " +
          "ip addr add 198.51.100.1/24 dev up1; " +
          "ip route add default via 198.51.100.2 dev up1 metric 500",
      );
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipam: ipam(scene, "10.1.0.0/24"),
      }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "a pod on two networks, with sbr for the second one",
    set: async (scene) => {
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipam: ipam(scene, "10.1.0.0/24"),
      }]);
      scene.writeNetwork("20-data", [{
        type: "bridge",
        bridge: "data0",
        isGateway: true,
        ipam: ipam(scene, "10.2.0.0/24"),
      }, { type: "sbr" }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
      await scene.attach("20-data", scene.hosts.sandbox, ID, "web", {
        ifName: "net1",
      });
    },
  },
  {
    name: "a pod on two networks, the second without a default route",
    set: async (scene) => {
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipam: ipam(scene, "10.1.0.0/24"),
      }]);
      scene.writeNetwork("20-storage", [{
        type: "macvlan",
        master: "out0",
        ipam: scene.hosts.hostLocal("10.3.0.0/24"),
      }]);
      scene.writeNetwork("30-data", [{
        type: "bridge",
        bridge: "data0",
        isGateway: true,
        ipam: scene.hosts.hostLocal("10.4.0.0/24"),
      }]);
      const { sandbox } = scene.hosts;
      await scene.attach("10-pods", sandbox, ID, "web");
      for (
        const [file, ifName] of [["20-storage", "net1"], ["30-data", "net2"]]
      ) {
        await scene.attach(`${file}`, sandbox, ID, "web", {
          ifName: `${ifName}`,
        });
      }
    },
  },
  {
    name: "pods of multus, whose networks are in two caches",
    set: async (scene) => {
      scene.writeMultus();
      const portMappings = [{ hostPort: 8080, containerPort: 80 }];
      await scene.attach("00-multus", scene.hosts.sandbox, ID, "web", {
        capabilityArgs: { portMappings },
      });
      await scene.attach("00-multus", scene.other, OTHER, "db");
    },
  },
  {
    name: "flannel over WireGuard, whose link has the route to all nodes",
    set: async (scene) => {
      const subnetFile = `${scene.hosts.directory}/subnet.env`;
      await Deno.writeTextFile(
        subnetFile,
        "FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\n" +
          "FLANNEL_MTU=1420\nFLANNEL_IPMASQ=true\n",
      );
      scene.writeNetwork("10-flannel", [{
        type: "flannel",
        subnetFile,
        dataDir: `${scene.hosts.directory}/flannel`,
        ipam: scene.hosts.hostLocal(),
        delegate: { isDefaultGateway: true },
      }], { name: "cbr0" });
      scene.sh(
        "ip link add flannel-wg up type bridge; " +
          "ip route add 10.42.0.0/16 dev flannel-wg scope link",
      );
      await scene.attach("10-flannel", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "dual-stack pods, and an IPv6 router with a link-local address",
    set: async (scene) => {
      scene.ip("-6 address add fe80::1/64 dev eth0 nodad", scene.outside);
      scene.ip("-6 route replace default via fe80::1 dev out0");
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipMasq: true,
        ipMasqBackend: "nftables",
        ipam: ipam(scene, "10.1.0.0/28", "fd00:1::/64"),
      }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "flannel with its subnet, and pods behind its bridge",
    set: async (scene) => {
      const subnetFile = `${scene.hosts.directory}/subnet.env`;
      await Deno.writeTextFile(
        subnetFile,
        "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n" +
          "FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
      );
      scene.writeNetwork("10-flannel", [{
        type: "flannel",
        subnetFile,
        dataDir: `${scene.hosts.directory}/flannel`,
        ipam: scene.hosts.hostLocal(),
        delegate: { isDefaultGateway: true, hairpinMode: true },
      }, { type: "portmap", capabilities: { portMappings: true } }], {
        name: "cbr0",
      });
      scene.ip("route add 10.244.0.0/24 via 192.0.2.2");
      await scene.attach("10-flannel", scene.hosts.sandbox, ID, "web");
      await scene.attach("10-flannel", scene.other, OTHER, "db");
    },
  },
  {
    name: "a firewall as Debian's wiki has it, with sets and maps",
    set: async (scene) => {
      scene.sh(
        "nft 'table inet filter { " +
          "set mine { type ipv4_addr; flags interval; elements = { 10.1.0.0/16, 192.0.2.0/24 }; }; " +
          "set bad { type ipv4_addr; flags interval; elements = { 10.66.0.0/16, 203.0.113.0/24 }; }; " +
          "set ports { type inet_service; elements = { 22, 443 }; }; " +
          "chain input { type filter hook input priority 0; policy drop; ct state vmap { established : accept, related : accept, invalid : drop }; iifname lo accept; ip saddr @bad drop; ip saddr @mine accept; tcp dport @ports accept; meta l4proto { icmp, ipv6-icmp } accept; }; " +
          "chain forward { type filter hook forward priority 0; policy accept; ct state invalid drop; ip saddr @bad drop; ip saddr 10.1.0.0/24 tcp dport 25 reject; iifname . oifname { eth7 . eth8 } drop; }; " +
          "chain output { type filter hook output priority 0; policy accept; ip daddr @bad drop; }; };" +
          "table bridge guests { chain f { type filter hook forward priority 0; policy drop; ether type { ip, ip6, arp } accept; }; };" +
          "table arp guests { chain i { type filter hook input priority 0; policy accept; arp saddr ip 10.66.0.1 drop; }; }'",
      );
      scene.writeNetwork("10-pods", [{
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        ipMasq: true,
        ipMasqBackend: "nftables",
        ipam: ipam(scene, "10.1.0.0/24"),
      }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "an old configuration with one plugin, and a chain",
    set: async (scene) => {
      scene.writeConf(
        "10-old.conf",
        JSON.stringify({
          cniVersion: "0.3.1",
          name: "old",
          type: "bridge",
          bridge: "old0",
          isGateway: true,
          ipam: scene.hosts.hostLocal("10.3.0.0/24"),
        }),
      );
      scene.writeNetwork("20-chain", [{
        type: "chain",
        plugins: [
          { type: "ptp", ipam: ipam(scene, "10.1.0.0/24") },
          { type: "tuning", sysctl: { "net.core.somaxconn": "500" } },
        ],
      }]);
      await scene.attach("20-chain", scene.hosts.sandbox, ID, "web");
    },
  },
  {
    name: "a bridge with a port that no plugin made",
    set: async (scene) => {
      scene.writeNetwork("10-pods", [{
        type: "bridge",
        bridge: "lan0",
        isGateway: true,
        ipam: ipam(scene, "10.2.0.0/24"),
      }]);
      await scene.attach("10-pods", scene.hosts.sandbox, ID, "web");
      scene.sh(
        `ip link add vm0 up master lan0 type veth peer name vm1; ` +
          `exec 9<${scene.other.path}; ip link set vm1 netns /proc/self/fd/9`,
      );
      scene.sh(
        "ip addr add 10.2.0.200/24 dev vm1; ip link set vm1 up",
        scene.other,
      );
    },
  },
  {
    name: "a runtime, its default directories, and files it ignores on purpose",
    set: (scene) => {
      const root = `${scene.proc}/812`;
      Deno.mkdirSync(`${root}/root/etc/containerd`, { recursive: true });
      Deno.writeTextFileSync(`${root}/comm`, "containerd\n");
      Deno.writeTextFileSync(`${root}/status`, "Uid:\t0\t0\t0\t0\n");
      Deno.writeTextFileSync(
        `${root}/root/etc/containerd/config.toml`,
        'conf_dir = "/etc/cni/other.d"\n',
      );
      // As k3s does: the usual file is another runtime's.
      Deno.writeTextFileSync(
        `${root}/cmdline`,
        "containerd\0-c\0/own.toml\0",
      );
      Deno.writeTextFileSync(
        `${root}/root/own.toml`,
        `conf_dir = "${scene.confDir}/"\nbin_dir = "${scene.hosts.path}"\n`,
      );
      scene.writeConf("10-pods.conflist.bak", "{}");
      scene.writeConf("README.txt", "Networks: see the wiki.\n");
      scene.writeConf(".10-pods.conflist.swp", "");
      scene.writeNetwork("20-lo", [{ type: "loopback" }]);
    },
  },
  {
    name: "the runtime of a node that is a container here",
    set: (scene) => {
      const root = `${scene.proc}/813`;
      Deno.mkdirSync(`${root}/root/etc/containerd`, { recursive: true });
      Deno.mkdirSync(`${root}/ns`);
      Deno.symlinkSync(scene.other.path, `${root}/ns/net`);
      Deno.writeTextFileSync(`${root}/comm`, "containerd\n");
      Deno.writeTextFileSync(`${root}/status`, "Uid:\t0\t0\t0\t0\n");
      Deno.writeTextFileSync(
        `${root}/root/etc/containerd/config.toml`,
        'conf_dir = "/etc/cni/other.d"\n',
      );
      scene.writeNetwork("20-lo", [{ type: "loopback" }]);
    },
  },
];

rootTest("cni doctor has no finding on healthy nodes", NEEDS, async (t) => {
  for (const { name, set } of KINDS) {
    await t.step(name, async () => {
      using scene = DoctorScene.bare();
      await set(scene);
      const { json, exitCode } = await scene.doctor({ strict: true });
      const { findings, unchecked } = json as {
        findings: { code: string; message: string }[];
        unchecked: unknown[];
      };
      assertEquals(
        findings.map(({ code, message }) => `${code} ${message}`),
        [],
      );
      assertEquals([unchecked, exitCode], [[], 0]);
    });
  }
});

rootTest(
  "cni doctor sends no packet from the loopback attachment of containerd",
  NEEDS,
  async () => {
    using scene = await DoctorScene.create();
    const conf = scene.writeNetwork("99-cni-loopback", [{ type: "loopback" }]);
    const lo = { ifName: "lo" };
    await scene.attach("99-cni-loopback", scene.hosts.sandbox, ID, "web", lo);
    await scene.attach("99-cni-loopback", scene.other, OTHER, "db", lo);
    await Deno.remove(conf);
    const { json, exitCode } = await scene.doctor();
    const { findings, summary } = json as {
      findings: unknown[];
      summary: { attachments: string };
    };
    assertEquals([findings, exitCode], [[], 0]);
    for (const flags of [{ to: "10.2.0.2" }, { from: "default/db" }, {}]) {
      const pod = await scene.doctor({
        pod: "default/web",
        ...flags as CniFlags,
      });
      const { ways } = pod.json as { ways: { from: string }[] };
      assertEquals(pod.exitCode, 0, JSON.stringify([flags, ways]));
    }
    assertEquals(summary.attachments, "2 on 2 networks");
  },
);

rootTest(
  "cni doctor reports a gateway outside the subnet as a warning",
  NEEDS,
  async () => {
    using scene = DoctorScene.bare();
    const { dataDir } = scene.hosts.hostLocal("10.1.0.0/24");
    const ranges = [[{ subnet: "10.1.0.0/24", gateway: "169.254.1.1" }]];
    scene.writeNetwork("10-pods", [{
      type: "bridge",
      bridge: "cni0",
      isGateway: true,
      ipMasq: true,
      ipam: { type: "host-local", dataDir, ranges },
    }]);
    await scene.attach("10-pods", scene.hosts.addNetns(), ID, "web");
    const { json, exitCode } = await scene.doctor({});
    const { findings } = json as { findings: { code: string }[] };
    // The bridge has the address that ADD gives it: no CNI0509.
    assertEquals(findings.map(({ code }) => code), ["CNI0105"]);
    assertEquals(exitCode, 0);
  },
);
