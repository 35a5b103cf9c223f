/**
 * The faults that `cni doctor` finds, each with its check and its text.
 *
 * @module
 */

import { summarizeKernel } from "../../cli/doctor/kernel.ts";
import { UnixListener } from "../../ffi/unix_socket.ts";
import { isVolatile } from "../../ipam/host_local/lint.ts";
import {
  attachmentOfNone,
  cached,
  elf,
  type Fault,
  inOther,
  inPod,
  ip,
  leaseOfNone,
  multus,
  network,
  plugin,
  remove,
  runtime,
  type Undo,
  VERSIONS,
  without,
} from "./doctor_fault.ts";
import { MORE_FAULTS } from "./doctor_more_faults.ts";
import { KERNEL_FAULTS } from "./doctor_kernel_faults.ts";
import { needsLegacyIptables } from "./rules.ts";

const { ignore: HAS_NO_LEGACY } = needsLegacyIptables();

const LACKS = summarizeKernel().lacks;
const KINDS = ["vlan", "ipvlan", "dummy", "vrf"];
const lacking = KINDS.find((kind) => LACKS.includes(kind));
const DHCP = { type: "dhcp", daemonSocketPath: "/nonexistent/dhcp.sock" };

/** A network of ptp and another plugin. */
function withPtp(plugin: object): Fault["seed"] {
  const ipam = { type: "static", addresses: [{ address: "10.77.0.5/24" }] };
  return (scene) => {
    const path = scene.writeNetwork("30-more", [{ type: "ptp", ipam }, plugin]);
    return () => Deno.removeSync(path);
  };
}

/** All of them. */
export const FAULTS: readonly Fault[] = [
  {
    name: "an earlier file is broken",
    checks: ["conf-unusable"],
    message: /05-x.conflist" cannot be used: .*unexpected end at line 1/,
    seed: (scene) => {
      const path = scene.writeConf("05-x.conflist", "{");
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "a pipe that nobody writes to",
    checks: ["conf-unusable"],
    message: /05-x.conf" cannot be read: .*not a file/,
    seed: (scene) => {
      const path = scene.writeConf("05-x.conf", "");
      Deno.removeSync(path);
      new Deno.Command("mkfifo", { args: [path] }).outputSync();
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "a chain with something else than plugins",
    checks: ["conf-unusable"],
    message: /30-more.conflist" cannot be used: /,
    seed: network({ type: "chain", plugins: [5] }),
  },
  {
    name: "two files with one name",
    checks: ["conf-same-name"],
    message: /"30-pods.conflist" is not used: "10-pods.conflist"/,
    seed: (scene) => {
      const { plugins } = scene.readNetwork("10-pods");
      const path = scene.writeNetwork("30-pods", plugins);
      return () => {
        for (const one of [path, `${path}.unused`]) remove(one);
      };
    },
    follow: true,
  },
  {
    name: "a value of the wrong type",
    checks: ["conf-invalid"],
    message: /30-more.conflist": plugins\[0\].mtu: /,
    seed: network({ type: "bridge", mtu: "abc" }),
  },
  {
    name: "a condition of the other family",
    checks: ["conf-invalid"],
    message: /plugins\[1\].conditionsV4\[2\]: "fd00::\/8" is for IPv6 packets/,
    seed: withPtp({
      type: "portmap",
      capabilities: { portMappings: true },
      conditionsV4: ["!", "-s", "fd00::/8"],
    }),
  },
  {
    name: "debug writes where runtimes read",
    checks: ["conf-invalid", "not-ready"],
    message: /plugins\[1\].cniOutput: runtimes read each file of /,
    seed: withPtp({ type: "debug", cniOutput: "/etc/cni/net.d/00-debug.conf" }),
  },
  {
    name: "a misspelt key",
    checks: ["conf-doubtful"],
    message: /did you mean "isGateway"/,
    seed: network({ type: "bridge", isGatway: true }),
  },
  {
    name: "no network",
    checks: ["no-network"],
    message: /has no usable network configuration/,
    seed: () => () => {},
    options: ({ hosts, cacheDir, proc }) => ({
      directories: { pluginDirs: [hosts.path], confDir: proc, cacheDir },
    }),
  },
  {
    name: "a plugin that is not installed",
    checks: ["plugin-missing"],
    message: /"more" needs "brigde": .*did you mean "bridge"/,
    seed: network({ type: "brigde" }),
    command: /^cni validate \/.*\/30-more.conflist$/,
  },
  {
    name: "an attachment's plugin that is not installed any more",
    checks: ["plugin-missing"],
    message: /^"pods" needs "bandwidth": /,
    seed: without("bandwidth"),
    command: /^cni install \/.* --only bandwidth$/,
  },
  {
    name: "an attachment's plugin that is not executable any more",
    checks: ["plugin-mode"],
    message: /bin\/bandwidth" is not executable/,
    seed: (scene) => {
      const restore = without("bandwidth")(scene);
      const path = `${scene.hosts.path}/bandwidth`;
      Deno.writeTextFileSync(path, "#!/bin/sh\n", { mode: 0o644 });
      return () => {
        Deno.removeSync(path);
        restore();
      };
    },
  },
  {
    name: "a plugin that is not executable",
    checks: ["plugin-mode"],
    message: /bin\/custom" is not executable/,
    seed: plugin("custom", VERSIONS, 0o644),
    follow: true,
  },
  {
    name: "a plugin for another machine",
    checks: ["plugin-machine"],
    message: /bin\/custom" is for s390x, and this machine is /,
    seed: plugin("custom", elf(22)),
  },
  {
    name: "a plugin that was cut off",
    checks: ["plugin-broken"],
    message: /bin\/custom" does not work: /,
    seed: plugin("custom", "\x7fELF"),
  },
  {
    name: "a plugin directory that does not exist",
    checks: ["plugin-directory"],
    message: /"\/nonexistent" does not exist/,
    seed: () => () => {},
    options: ({ hosts, confDir, cacheDir }) => ({
      directories: {
        pluginDirs: [hosts.path, "/nonexistent"],
        confDir,
        cacheDir,
      },
    }),
  },
  {
    name: "another project's plugin comes first",
    checks: ["plugin-shadowed"],
    message: /bin\/bandwidth" is not used: ".*first\/bandwidth"/,
    seed: ({ hosts: { directory } }) => {
      Deno.mkdirSync(`${directory}/first`);
      Deno.writeTextFileSync(`${directory}/first/bandwidth`, VERSIONS, {
        mode: 0o755,
      });
      return () => Deno.removeSync(`${directory}/first`, { recursive: true });
    },
    options: ({ hosts, confDir, cacheDir }) => ({
      directories: {
        pluginDirs: [`${hosts.directory}/first`, hosts.path],
        confDir,
        cacheDir,
      },
    }),
  },
  {
    name: "a kernel without a kind of link",
    checks: ["kernel-feature"],
    message: new RegExp(`has no ${lacking}, which ${lacking} of "more" needs`),
    seed: network({
      type: lacking,
      master: "out0",
      vlanId: 5,
      ipam: { type: "static", addresses: [{ address: "10.9.9.9/24" }] },
    }),
    ignore: lacking === undefined,
  },
  {
    name: "no DHCP daemon",
    checks: ["not-ready"],
    message: /"more" is not ready: .*dhcp.sock/,
    seed: network({ type: "macvlan", master: "out0", ipam: DHCP }),
  },
  {
    name: "no kubeconfig for whereabouts",
    checks: ["not-ready"],
    message: /"more" is not ready: Cannot use kubeconfig "\/nonexistent"/,
    seed: network({
      type: "macvlan",
      master: "out0",
      ipam: {
        type: "whereabouts",
        range: "192.168.9.0/24",
        kubernetes: { kubeconfig: "/nonexistent" },
      },
    }),
  },
  {
    name: "a node daemon that does not answer",
    checks: ["daemon-unused"],
    message: /the node daemon at ".*\/daemon.sock" does not answer/,
    command: /^cni daemon restart$/,
    seed: ({ hosts: { directory } }) => {
      const path = `${directory}/daemon.sock`;
      const listener = new UnixListener(path);
      return (): void => {
        listener[Symbol.dispose]();
        Deno.removeSync(path);
      };
    },
  },
  {
    name: "no node daemon",
    checks: ["daemon"],
    message: /no daemon answers at "\/nonexistent\/daemon.sock" of "more"/,
    seed: network({
      type: "bridge",
      daemonSocket: "/nonexistent/daemon.sock",
    }),
  },
  {
    name: "no kubeconfig",
    checks: ["multus-kubeconfig"],
    message: /multus of "more" cannot use its kubeconfig: .*cannot be read/,
    seed: network({
      type: "multus",
      clusterNetwork: "pods",
      kubeconfig: "/nonexistent/kubeconfig",
    }),
  },
  {
    name: "a token that has expired, and no API server",
    checks: ["multus-token", "api-server"],
    message: /token in ".*kubeconfig" of "more" expired at 20/,
    seed: multus(-60),
  },
  {
    name: "a token that was not renewed",
    checks: ["api-server", "multus-token"],
    message:
      /the API server https:\/\/127.0.0.1:1 of "more" does not serve multus: /,
    seed: multus(60),
  },
  {
    name: "two networks with one subnet",
    checks: ["subnet-overlap"],
    message: /"lan" and "more" overlap: 10.2.0.0\/24 and 10.2.0.0\/16/,
    seed: (scene) =>
      network({
        type: "bridge",
        bridge: "br9",
        isGateway: true,
        ipam: scene.hosts.hostLocal("10.2.0.0/16"),
      })(scene),
  },
  {
    name: "a subnet of the host's neighbours",
    checks: ["subnet-host"],
    message: /192.0.2.128\/25 of "more" overlaps .*192.0.2.0\/24 by "out0"/,
    seed: (scene) =>
      network({
        type: "bridge",
        bridge: "br9",
        isGateway: true,
        ipam: scene.hosts.hostLocal("192.0.2.128/25"),
      })(scene),
  },
  {
    name: "a bridge of an earlier configuration",
    checks: ["bridge-address"],
    message: /the bridge "br9" has 10.8.0.1\/16, and "more" needs 10.9.0.1\/24/,
    seed: (scene) => {
      const undo = network({
        type: "bridge",
        bridge: "br9",
        isGateway: true,
        ipam: scene.hosts.hostLocal("10.9.0.0/24", "fd00:9::/64"),
      })(scene);
      scene.sh(
        "ip link add br9 up type bridge; ip addr add 10.8.0.1/16 dev br9; ip addr add fd00:9:1::1/64 dev br9",
        scene.hosts.host,
      );
      return () => {
        scene.sh("ip link del br9", scene.hosts.host);
        undo();
      };
    },
    follow: true,
  },
  {
    name: "no address but one that stays",
    // Its directory is below TMPDIR: one that is empty after a reboot, or not.
    checks: [
      ...isVolatile(Deno.env.get("TMPDIR") ?? "/tmp") ? ["conf-doubtful"] : [],
      "pool-staying",
    ],
    message: /"more" has no free address of 10.9.0.0\/30: 1 of 1 stay for pods/,
    seed: (scene) => {
      const directory = `${scene.hosts.directory}/leases/more`;
      Deno.mkdirSync(directory);
      Deno.symlinkSync("stay/default/job-1/eth0", `${directory}/10.9.0.2`);
      const ipam = { ...scene.hosts.hostLocal("10.9.0.0/30") };
      const undo = network({
        type: "ptp",
        ipam: { ...ipam, stay: "name", stayTime: "10m" },
      })(scene);
      return () => {
        undo();
        Deno.removeSync(directory, { recursive: true });
      };
    },
  },
  {
    name: "no address left",
    checks: ["pool-full"],
    message: /"more" has 0 of 1 addresses of 10.9.0.0\/30 left/,
    seed: (scene) => {
      const directory = `${scene.hosts.directory}/leases/more`;
      Deno.mkdirSync(directory);
      Deno.writeTextFileSync(
        `${directory}/10.9.0.2`,
        "0123456789abcdef\r\neth9",
      );
      const ipam = scene.hosts.hostLocal("10.9.0.0/30");
      const undo = network({ type: "bridge", isGateway: true, ipam })(scene);
      return () => {
        undo();
        Deno.removeSync(directory, { recursive: true });
      };
    },
  },
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
    name: "strict reverse path filtering against a route",
    checks: ["rp-filter", "subnet-host"],
    message:
      /rp_filter of "lan0" is 1 \(strict\), but the route to 10.2.0.2 of/,
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
    name: "a forward chain of nftables with policy drop",
    checks: ["forward-policy"],
    message:
      /"inet fw f1" has policy drop, and has no rule that accepts 10.1.0.0\/28/,
    seed: ip(
      "nft 'table inet fw { chain f1 { type filter hook forward priority 0; policy drop; ct state established accept; }; }'",
      "nft delete table inet fw",
    ),
    follow: true,
  },
  {
    name: "a forward chain like firewalld's",
    checks: ["forward-policy"],
    message: /filter_FORWARD" ends with a rule that drops/,
    seed: ip(
      "nft 'table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; ct state established accept; iifname \"docker0\" accept; reject with icmpx admin-prohibited; }; }'",
      "nft delete table inet firewalld",
    ),
  },
  {
    name: "FORWARD of iptables-nft with policy drop",
    checks: ["forward-policy"],
    message: /"ip filter FORWARD" has policy drop/,
    seed: ip("iptables-nft -P FORWARD DROP", "nft delete table ip filter"),
    follow: true,
  },
  {
    name: "FORWARD of iptables-legacy with policy drop",
    checks: ["forward-policy"],
    message: /chain FORWARD of iptables-legacy has policy DROP/,
    ignore: HAS_NO_LEGACY,
    seed: ip(
      "iptables-legacy -P FORWARD DROP",
      "iptables-legacy -P FORWARD ACCEPT",
    ),
  },
  {
    name: "rules of both variants of iptables",
    checks: ["iptables-mixed"],
    message: /the legacy iptables has 1 rule/,
    ignore: HAS_NO_LEGACY,
    seed: ip(
      "iptables-legacy -A INPUT -s 203.0.113.9 -j DROP; iptables-nft -A INPUT -s 203.0.113.9 -j DROP",
      "iptables-legacy -F INPUT; nft delete table ip filter",
    ),
  },
  {
    name: "too little address space",
    checks: ["service-limit"],
    message: /LimitAS of containerd is 1073741824 bytes, and plugins need/,
    seed: runtime(
      "Limit                     Soft Limit           Hard Limit           Units\n" +
        "Max address space         1073741824           unlimited            bytes\n" +
        "Max open files            1024                 524288               files\n",
    ),
  },
  {
    name: "too little memory",
    checks: ["service-limit"],
    message: /MemoryMax of containerd is 8388608 bytes/,
    seed: runtime("", 8 * 1024 * 1024),
  },
  {
    name: "a cache file with garbage",
    checks: ["cache-broken"],
    message: /results\/pods-x-eth0" is not readable/,
    seed: cached("pods-x-eth0", "{"),
    follow: true,
  },
  {
    name: "an empty cache file",
    checks: ["cache-broken"],
    message: /results\/pods-x-eth0" is empty/,
    seed: cached("pods-x-eth0", ""),
    follow: true,
  },
  {
    name: "a pipe in the place of a cache file",
    checks: ["cache-broken"],
    message: /results\/pods-x-eth0" is not a file/,
    seed: ({ cacheDir }): Undo => {
      const path = `${cacheDir}/results/pods-x-eth0`;
      new Deno.Command("mkfifo", { args: [path] }).outputSync();
      return () => remove(path);
    },
    follow: true,
  },
  {
    name: "a container that ended without DEL",
    checks: ["leftover"],
    message: /"lan" has 1 leftover of .*: attachment .*feedfacefeed/,
    seed: attachmentOfNone,
  },
  {
    name: "a lease of no container",
    checks: ["leftover"],
    message: /"lan" has 1 leftover of .*: lease .*10.2.0.200/,
    seed: leaseOfNone,
  },
  {
    name: "an interface that is down",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: /,
    seed: ip(
      "ip link set eth0 down",
      "ip link set eth0 up; ip route replace default via 10.2.0.1",
      inOther,
    ),
    follow: true,
  },
  {
    name: "a route that is gone",
    checks: ["attachment-changed"],
    message: /default\/web eth0 on "pods": ptp: .*0.0.0.0\/0/,
    seed: ip(
      "ip route del default",
      "ip route replace default via 10.1.0.1",
      inPod,
    ),
    follow: true,
  },
  {
    name: "an address that is gone",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: .*10.2.0.2/,
    seed: ip(
      "ip addr del 10.2.0.2/24 dev eth0",
      "ip addr replace 10.2.0.2/24 dev eth0; ip route replace default via 10.2.0.1",
      inOther,
    ),
    follow: true,
  },
  {
    name: "another MAC",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: .*(MAC|mac)/,
    seed: (scene) => {
      const before = scene.sh("cat /sys/class/net/eth0/address", scene.other);
      const [{ address }] = JSON.parse(
        scene.ip("-j link show eth0", scene.other),
      );
      void before;
      scene.ip("link set eth0 address 02:00:00:00:00:09", scene.other);
      return () =>
        void scene.ip(`link set eth0 address ${address}`, scene.other);
    },
  },
  {
    name: "a lease that is gone",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: .*10.2.0.2/,
    seed: ({ hosts }) => {
      const path = `${hosts.directory}/leases/lan/10.2.0.2`;
      const lease = Deno.readTextFileSync(path);
      Deno.removeSync(path);
      return () => Deno.writeTextFileSync(path, lease);
    },
  },
  {
    name: "a masquerade that is gone",
    checks: ["attachment-changed"],
    message: /default\/web eth0 on "pods": ptp: The masquerade is gone/,
    seed: (scene) => {
      const table = "inet cni_plugins_masquerade";
      const saved = scene.sh(`nft list table ${table}`);
      const file = `${scene.hosts.directory}/saved.nft`;
      Deno.writeTextFileSync(file, saved);
      scene.sh(`nft delete table ${table}`);
      return () => void scene.sh(`nft -f ${file}`);
    },
  },
  {
    name: "a rate limit that is gone",
    checks: ["attachment-changed"],
    message: /default\/web eth0 on "pods": bandwidth: /,
    seed: (scene) => {
      const [{ ifname }] = JSON.parse(scene.ip("-j link show type veth"))
        .filter((link: { ifname: string; master?: string }) =>
          link.ifname !== "out0" && link.master === undefined
        );
      const shown = scene.sh(`tc qdisc show dev ${ifname} root`);
      const [, rate, burst, latency] =
        /rate (\S+) burst (\S+) lat (\S+)/.exec(shown) ?? [];
      scene.sh(`tc qdisc del dev ${ifname} root`);
      return () =>
        void scene.sh(
          `tc qdisc add dev ${ifname} root handle 1: tbf rate ${rate} burst ${burst} latency ${latency}`,
        );
    },
  },
  {
    name: "an MTU that differs from the other end's",
    checks: ["mtu"],
    message:
      /MTU of default\/db eth0 is 1300, and that of "veth.*", its other end, 1500/,
    seed: ip("ip link set eth0 mtu 1300", "ip link set eth0 mtu 1500", inOther),
    command: /^nsenter --net=\/\S+ ip link set eth0 mtu 1500$/,
    follow: true,
  },
  {
    name: "an uplink with a smaller MTU",
    checks: ["mtu"],
    message:
      /MTU of default\/web eth0 is 1500, and that of the uplink "out0" only 1400/,
    seed: ip("ip link set out0 mtu 1400", "ip link set out0 mtu 1500"),
  },
  ...MORE_FAULTS,
  ...KERNEL_FAULTS,
];
