/**
 * Faults of addresses that a network gives: its servers and routers are Debian's.
 *
 * @module
 */

import { TestDaemon } from "../../../../ipam/dhcp/testing.ts";
import { Background } from "../../../../tests/_harness/background.ts";
import { eventually } from "../../../../tests/_harness/eventually.ts";
import {
  needsRadvd,
  RouterNet,
} from "../../../../tests/_harness/router_net.ts";
import { hasCommand } from "../../../../testing/capabilities.ts";
import type { Fault } from "../fault.ts";
import type { DoctorScene } from "../scene.ts";

type Seeded = Awaited<ReturnType<Fault["seed"]>>;

/** Attaches a pod to a network that is then no longer configured: only the pod counts. */
async function attach(
  scene: DoctorScene,
  plugin: object,
): Promise<DoctorScene["other"]> {
  const netns = scene.hosts.addNetns();
  const id = crypto.randomUUID().replaceAll("-", "");
  const path = scene.writeNetwork("30-given", [plugin]);
  try {
    await scene.attach("30-given", netns, id, "given");
  } finally {
    await Deno.remove(path);
  }
  return netns;
}

function forget({ cacheDir }: DoctorScene): void {
  for (const { name } of Deno.readDirSync(`${cacheDir}/results`)) {
    if (name.startsWith("given-")) {
      Deno.removeSync(`${cacheDir}/results/${name}`);
    }
  }
}

/** Leases an address from dnsmasq, which then ends, and breaks the rest. */
function leased(
  breaks: (daemon: TestDaemon) => Promise<void>,
): Fault["seed"] {
  return async (scene): Promise<Seeded> => {
    const { hosts } = scene;
    scene.sh(
      "ip link add br8 type bridge; ip link set br8 up; " +
        "ip address add 10.98.0.1/24 dev br8",
    );
    const daemon = new TestDaemon(`${hosts.directory}/dhcp.sock`);
    const server = new Background(hosts.host, "dnsmasq", [
      ...["--keep-in-foreground", "--conf-file=/dev/null", "--user=root"],
      ...["--port=0", "--pid-file=", "--log-facility=-", "--log-dhcp"],
      ...["--interface=br8", "--bind-interfaces", "--no-ping"],
      ...["--dhcp-authoritative", "--leasefile-ro"],
      "--dhcp-range=10.98.0.10,10.98.0.99,255.255.255.0,1h",
    ]);
    await server.says("DHCP, ");
    await daemon.start({ timeoutMs: 1000 });
    await attach(scene, {
      type: "bridge",
      bridge: "br8",
      ipam: { type: "dhcp", daemonSocketPath: daemon.socket },
    });
    await server.stop();
    await breaks(daemon);
    return async () => {
      await daemon.stop();
      forget(scene);
      await Deno.remove(daemon.directory.path, { recursive: true });
      scene.sh("ip link del br8");
    };
  };
}

/** Ages the leases of a daemon that does not run. */
async function age(daemon: TestDaemon, seconds: number): Promise<void> {
  for (const lease of daemon.leases) {
    const obtainedAt = lease.obtainedAt - seconds;
    await daemon.directory.write({ ...lease, obtainedAt });
  }
}

/** Has a pod with slaac, and breaks its router. */
function routed(
  seconds: number,
  breaks: (
    net: RouterNet,
    netns: DoctorScene["other"],
    scene: DoctorScene,
  ) => Promise<void>,
): Fault["seed"] {
  return async (scene): Promise<Seeded> => {
    const net = new RouterNet("bridge", scene.hosts);
    await net.advertise(`prefix 2001:db8:98::/64 {
      AdvValidLifetime ${seconds}; AdvPreferredLifetime ${seconds - 2}; };`);
    const netns = await attach(scene, {
      type: "bridge",
      bridge: "br0",
      ipam: { type: "slaac", timeoutSeconds: 60 },
    });
    await breaks(net, netns, scene);
    return async () => {
      await net[Symbol.asyncDispose]();
      forget(scene);
      scene.sh("ip link del br0; ip link del master0");
    };
  };
}

/** Faults of addresses that a network gives. */
export const NETWORK_ADDRESS_FAULTS: readonly Fault[] = [
  {
    name: "leases without a DHCP daemon",
    checks: ["lease-not-renewed"],
    message:
      /no daemon renews the DHCP lease in ".*\/dhcp": 10\.98\.0\.\d+ of default\/given eth0 expires \d{4}-.*; No DHCP daemon listens at/,
    command: /^setsid -f \S+\/dhcp daemon -socketpath \S+\/dhcp.sock </,
    ignore: !hasCommand("dnsmasq"),
    seed: leased((daemon) => daemon.stop()),
  },
  {
    name: "a DHCP server that does not answer",
    checks: ["lease-not-renewed"],
    message:
      /no DHCP server renews the lease of 10\.98\.0\.\d+ of default\/given eth0, which expires/,
    command:
      /^cni netns exec --cache-dir=\S+ \w+ tcpdump -ni eth0 udp port 67$/,
    ignore: !hasCommand("dnsmasq"),
    seed: leased(async (daemon) => {
      await daemon.stop();
      await age(daemon, 3200);
      await daemon.start({ timeoutMs: 1000 });
      await daemon.says("Cannot extend the lease");
    }),
  },
  {
    name: "a DHCP lease that has expired",
    checks: ["lease-not-renewed"],
    message:
      /default\/given eth0 has lost its DHCP lease of 10\.98\.0\.\d+, and no server/,
    ignore: !hasCommand("dnsmasq"),
    seed: leased(async (daemon) => {
      await daemon.stop();
      await age(daemon, 4000);
      await daemon.start({ timeoutMs: 1000 });
      await daemon.says("The lease expired");
    }),
  },
  {
    name: "a container that ignores router advertisements",
    checks: ["no-advertisement"],
    message:
      /default\/given eth0 ignores router advertisements: accept_ra is 0/,
    command:
      /^nsenter --net=\S+ sysctl -w 'net\/ipv6\/conf\/eth0\/accept_ra=2'$/,
    ignore: needsRadvd.ignore,
    follow: true,
    seed: routed(3600, (_net, netns, scene) => {
      scene.sh("echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_ra", netns);
      return Promise.resolve();
    }),
  },
  {
    name: "a router that falls silent",
    checks: ["no-advertisement"],
    message: /default\/given eth0 has no address: the last one has expired/,
    command: /^cni netns exec --cache-dir=\S+ \w+ tcpdump -ni eth0 icmp6$/,
    ignore: needsRadvd.ignore,
    seed: routed(8, async (net, netns) => {
      await net.stopAdvertising();
      await eventually(
        "its address has expired",
        () => net.addresses(netns).length === 0,
      );
    }),
  },
];
