/**
 * Faults of attachments that are not as they were.
 *
 * @module
 */

import {
  putIpamClaim,
  withClaim,
} from "../../../../ipam/whereabouts/testing/claims.ts";
import { WhereaboutsScene } from "../../../../ipam/whereabouts/testing/scene.ts";
import { KubeApi } from "../../../../kube/testing/kube_api.ts";
import { Background } from "../../../../tests/_harness/background.ts";
import {
  attachmentOfNone,
  cacheAttachment,
  type Fault,
  GONE_ID,
  inOther,
  inPod,
  ip,
  makeOld,
  network,
  remove,
  type Undo,
} from "../fault.ts";
import type { DoctorScene } from "../scene.ts";

/**
 * Makes an attachment's namespace, in which a process runs, a file where nothing is
 * mounted.
 */
function unmounted(
  { cacheDir, hosts, other }: DoctorScene,
): Promise<() => Promise<void>> {
  const path = `${cacheDir}/results/lan-fedcba9876543210-eth0`;
  const text = Deno.readTextFileSync(path);
  const netns = `${hosts.directory}/netns-of-db`;
  Deno.writeTextFileSync(netns, "");
  const document = { ...JSON.parse(text), netns };
  Deno.writeTextFileSync(path, JSON.stringify(document));
  const program = new Background(other, "sleep", ["1000"]);
  return Promise.resolve(() => {
    Deno.writeTextFileSync(path, text);
    unmount(netns);
    return program.stop();
  });
}

/** Caches an attachment of a deleted container, with a file where nothing is mounted. */
function unmountedOfNone(scene: DoctorScene): Undo {
  const undo = attachmentOfNone(scene);
  const { cacheDir, hosts } = scene;
  const path = `${cacheDir}/results/lan-${GONE_ID}-eth0`;
  const netns = `${hosts.directory}/netns-of-none`;
  Deno.writeTextFileSync(netns, "");
  const document = { ...JSON.parse(Deno.readTextFileSync(path)), netns };
  Deno.writeTextFileSync(path, JSON.stringify(document));
  makeOld(path);
  return () => {
    undo();
    unmount(netns);
  };
}

/** Removes a file at which a namespace might be mounted. */
function unmount(path: string): void {
  new Deno.Command("umount", { args: ["--quiet", path], stderr: "null" })
    .outputSync();
  remove(path);
}

/** Attaches a pod with an IPAMClaim in a cluster, and breaks something there. */
function claimed(
  breaks: (cluster: WhereaboutsScene) => void,
): (scene: DoctorScene) => Promise<Undo> {
  return async ({ cacheDir }) => {
    const cluster = await WhereaboutsScene.start();
    putIpamClaim(cluster, "vm");
    const ipam = { range: "10.0.0.0/24" };
    const call = withClaim("vm", { pod: "vm-1", id: GONE_ID });
    const { json } = await cluster.call("ADD", ipam, call);
    breaks(cluster);
    const plugin = { type: "macvlan", ipam: cluster.ipam(ipam) };
    const path = cacheAttachment(cacheDir, plugin, json);
    return async () => {
      remove(path);
      await cluster[Symbol.asyncDispose]();
    };
  };
}

/** Has pod default/web request a network that it does not have. */
async function requesting(scene: DoctorScene): Promise<() => Promise<void>> {
  const api = await KubeApi.start({ transport: "http" });
  const annotations = { "k8s.v1.cni.cncf.io/networks": "storage" };
  api.putPod({
    metadata: { namespace: "default", name: "web", uid: "u1", annotations },
    status: { phase: "Running", podIP: "10.1.0.2" },
  });
  const kubeconfig = api.writeKubeconfig(scene.hosts.directory);
  const conf = { type: "multus", clusterNetwork: "pods", kubeconfig };
  const undo = network(conf)(scene);
  return async () => {
    undo();
    await api[Symbol.asyncDispose]();
  };
}

/** Faults of attachments that are not as they were. */
export const ATTACHMENTS_FAULTS: readonly Fault[] = [
  {
    name: "an interface that is down",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: /,
    seed: ip(
      "ip link set eth0 down",
      "ip link set eth0 up; ip route replace default via 10.2.0.1",
      inOther,
    ),
  },
  {
    name: "the host's ends do not forward",
    checks: ["attachment-changed"],
    message:
      /default\/web eth0 on "pods": ptp: IPv4 forwarding is off on "veth/,
    seed: ip(
      "for one in /proc/sys/net/ipv4/conf/veth*; do echo 0 > $one/forwarding; done",
      "for one in /proc/sys/net/ipv4/conf/veth*; do echo 1 > $one/forwarding; done",
    ),
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
  },
  {
    name: "another MAC",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: .*(MAC|mac)/,
    seed: (scene) => {
      const [{ address }] = JSON.parse(
        scene.ip("-j link show eth0", scene.other),
      );
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
    message: /default\/web eth0 on "pods": ptp: The masquerade is missing/,
    seed: (scene) => {
      const table = "inet cni_plugins_masquerade";
      const saved = scene.sh(`nft list table ${table}`);
      const file = `${scene.hosts.directory}/saved.nft`;
      Deno.writeTextFileSync(file, saved);
      scene.sh(`nft delete table ${table}`);
      return () =>
        void scene.sh(`nft delete table ${table} || true; nft -f ${file}`);
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
    name: "a bridge that is down",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: Interface "lan0" is down/,
    seed: ip("ip link set lan0 down", "ip link set lan0 up"),
  },
  {
    name: "a bridge without its address",
    checks: ["attachment-changed"],
    message:
      /default\/db eth0 on "lan": bridge: Interface "lan0" lacks address/,
    seed: ip(
      "ip addr del 10.2.0.1/24 dev lan0",
      "ip addr replace 10.2.0.1/24 dev lan0",
    ),
  },
  {
    name: "a namespace that is not mounted any more",
    checks: ["netns-unmounted"],
    message:
      /netns-of-db" of default\/db eth0 is no longer a network namespace/,
    seed: unmounted,
    command: /^mount --bind \/proc\/\d+\/ns\/net \/\S+netns-of-db$/m,
    follow: true,
  },
  {
    name: "a namespace of a deleted container that is not mounted any more",
    checks: ["netns-unmounted"],
    message: /netns-of-none" of \S+ eth0 is no longer a network namespace/,
    seed: unmountedOfNone,
    command: /^cni del lan \/\S+netns-of-none --container-id/m,
    follow: true,
  },
  {
    name: "the loopback of a pod is down",
    checks: ["loopback-down"],
    message: /"lo" of default\/web is down/,
    seed: ip("ip link set lo down", "ip link set lo up", inPod),
    follow: true,
  },
  {
    name: "an IPAMClaim that was deleted before its pod",
    checks: ["claim-gone"],
    message: /the IPAMClaim test\/vm of test\/vm-1 net1 no longer exists/,
    seed: claimed(({ api }) => api.remove("ipamclaims", "test", "vm")),
  },
  {
    name: "an IPAMClaim without its record",
    checks: ["claim-unrecorded"],
    message:
      /no IPPool contains 10.0.0.1 for the IPAMClaim test\/vm of test\/vm-1/,
    seed: claimed((cluster) =>
      cluster.putPool("10.0.0.0-24", "10.0.0.0/24", {})
    ),
  },
  {
    name: "a pod without the network that it requests",
    checks: ["network-missing"],
    message:
      /default\/web runs without what its annotation requests: default\/storage/,
    seed: requesting,
  },
  {
    name: "a container's route on the node is gone",
    checks: ["attachment-changed"],
    message: /default\/web eth0 on "pods": ptp: .* lacks route 10.1.0.2\/32/,
    seed: ip(
      "ip route show 10.1.0.2 > ${SAVED}route; ip route del 10.1.0.2",
      "ip route replace $(cat ${SAVED}route); rm ${SAVED}route",
    ),
    command:
      /^cni repair default\/web --cni-path=\S+ --conf-dir=\S+ --cache-dir=\S+$/m,
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
    command: /^cni repair default\/db --sandbox --cni-path=/m,
  },
  {
    name: "IPv6 disabled in a container",
    checks: ["attachment-changed"],
    message: /default\/web eth0 on "pods": ptp: .* lacks address fd00:1::2\/64/,
    seed: ip(
      "ip -6 route save dev eth0 > ${SAVED}routes; " +
        "sysctl -qw net/ipv6/conf/eth0/disable_ipv6=1",
      "sysctl -qw net/ipv6/conf/eth0/disable_ipv6=0; " +
        "ip addr replace fd00:1::2/64 dev eth0 nodad noprefixroute; " +
        "ip -6 route restore < ${SAVED}routes; rm ${SAVED}routes",
      inPod,
    ),
    follow: true,
  },
];
