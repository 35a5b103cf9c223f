/**
 * Faults of links: masters, bridges, MTUs, neighbours, and subnets.
 *
 * @module
 */

import { summarizeKernel } from "../../kernel.ts";
import {
  both,
  bridged,
  conf,
  type Fault,
  inOther,
  ip,
  macOf,
  network,
  type Seed,
  STATIC,
  tunnel,
  type Undo,
} from "../fault.ts";
import type { DoctorScene } from "../scene.ts";

/** Writes the cache of an attachment anew, with other capability arguments. */
function ports(...files: string[]): Seed {
  return ({ cacheDir }) => {
    const undo = files.map((file) => {
      const path = `${cacheDir}/results/${file}`;
      const text = Deno.readTextFileSync(path);
      const portMappings = [
        { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      ];
      const capabilityArgs = { portMappings };
      Deno.writeTextFileSync(
        path,
        JSON.stringify({ ...JSON.parse(text), capabilityArgs }),
      );
      return (): void => Deno.writeTextFileSync(path, text);
    });
    return () => undo.forEach((one) => one());
  };
}

/** Flannel's bridge has the address of an earlier lease of the node's subnet. */
function flannel(scene: DoctorScene): Undo {
  const subnetFile = `${scene.hosts.directory}/subnet.env`;
  Deno.writeTextFileSync(
    subnetFile,
    "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n" +
      "FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
  );
  const delegate = { isDefaultGateway: true };
  const undo = network({ type: "flannel", subnetFile, delegate })(scene);
  scene.sh(
    "ip link add cni0 type bridge; ip addr add 10.244.0.1/24 dev cni0; " +
      "ip link set cni0 up",
  );
  return () => {
    undo();
    Deno.removeSync(subnetFile);
    scene.sh("ip link del cni0");
  };
}

/** Has a container behind the bridge with the MAC of `db`, which has another one for a moment. */
async function attachTwin(scene: DoctorScene): Promise<Undo> {
  const mac = macOf(scene);
  const netns = scene.hosts.addNetns();
  const file = "40-twin";
  const path = scene.writeNetwork(file, [
    { type: "bridge", bridge: "lan0", capabilities: { mac: true } },
  ]);
  const id = "0011223344556677";
  scene.sh("ip link set eth0 address 02:00:00:00:00:01", scene.other);
  await scene.attach(file, netns, id, "twin", { capabilityArgs: { mac } });
  scene.sh(`ip link set eth0 address ${mac}`, scene.other);
  return () => {
    scene.sh("ip link del eth0", netns);
    Deno.removeSync(path);
    Deno.removeSync(`${scene.cacheDir}/results/twin-${id}-eth0`);
  };
}

/** Faults of links: masters, bridges, MTUs, neighbours, and subnets. */
export const LINKS_FAULTS: readonly Fault[] = [
  {
    name: "two networks with one subnet",
    checks: ["subnet-overlap"],
    message: /"lan" and "more" overlap: 10.2.0.0\/24 and 10.2.0.0\/16/,
    seed: bridged(["10.2.0.0/16"]),
  },
  {
    name: "a subnet of the host's neighbours",
    checks: ["subnet-host"],
    message: /192.0.2.128\/25 of "more" overlaps .*192.0.2.0\/24 over "out0"/,
    seed: bridged(["192.0.2.128/25"]),
  },
  {
    name: "a bridge of an earlier configuration",
    checks: ["bridge-address"],
    message: /the bridge "br9" has 10.8.0.1\/16, and "more" needs 10.9.0.1\/24/,
    seed: both(
      bridged(["10.9.0.0/24", "fd00:9::/64"]),
      ip(
        "ip link add br9 up type bridge; ip addr add 10.8.0.1/16 dev br9; ip addr add fd00:9:1::1/64 dev br9",
        "ip link del br9",
      ),
    ),
    follow: true,
  },
  {
    name: "an MTU that differs from the other end's",
    checks: ["mtu"],
    message:
      /MTU of default\/db eth0 is 1300, but the MTU of its other end, "veth.*", is 1500/,
    seed: ip("ip link set eth0 mtu 1300", "ip link set eth0 mtu 1500", inOther),
    command: /^nsenter --net=\/\S+ ip link set eth0 mtu 1500$/,
    follow: true,
  },
  {
    name: "an uplink with a smaller MTU",
    checks: ["mtu"],
    message:
      /MTU of default\/web eth0 is 1500, but the MTU of the uplink "out0" is only 1400/,
    seed: ip("ip link set out0 mtu 1400", "ip link set out0 mtu 1500"),
  },
  {
    name: "a master that is the loopback",
    checks: ["link-unusable"],
    message: /"lo", the master of "more", is the loopback/,
    seed: network({ type: "macvlan", master: "lo", ipam: STATIC }),
  },
  {
    name: "a master that does not exist",
    checks: ["link-missing"],
    message:
      /"out1", the master of "more", does not exist; did you mean "out0"/,
    seed: network({ type: "macvlan", master: "out1", ipam: STATIC }),
  },
  {
    name: "a device that does not exist",
    checks: ["link-missing"],
    message: /"ens5", the device of "more", does not exist/,
    seed: network({ type: "host-device", device: "ens5" }),
  },
  {
    name: "a device that is the uplink",
    checks: ["link-unusable"],
    message: /"out0", the device of "more", is the uplink of this node/,
    seed: network({ type: "host-device", device: "out0" }),
  },
  {
    name: "a master that is down",
    checks: ["link-unusable"],
    message: /"low0", the master of "more", is down/,
    seed: both(
      ip(
        "ip link add low0 type veth peer name low1; ip link set low1 up",
        "ip link del low0",
      ),
      network({ type: "macvlan", master: "low0", ipam: STATIC }),
    ),
    follow: true,
  },
  {
    name: "a master that is a port of a bridge",
    checks: ["link-unusable"],
    message: /"low0", the master of "more", is a port of the bridge "br9"/,
    seed: both(
      ip(
        "ip link add low0 up type veth peer name low1; ip link set low1 up; " +
          "ip link add br9 up type bridge; ip link set low0 master br9",
        "ip link del low0; ip link del br9",
      ),
      network({ type: "macvlan", master: "low0", ipam: STATIC }),
    ),
  },
  {
    name: "macvlan and ipvlan on one master",
    checks: summarizeKernel().lacks.includes("ipvlan")
      ? ["kernel-feature", "link-unusable"]
      : ["link-unusable"],
    message: /"out0" is the master of "more" \(macvlan\) and of "other" \(ipvl/,
    seed: both(
      network({
        type: "macvlan",
        master: "out0",
        ipam: { ...STATIC, addresses: [{ address: "10.9.0.1/24" }] },
      }),
      conf(
        "40-other.conflist",
        JSON.stringify({
          cniVersion: "1.1.0",
          name: "other",
          plugins: [{
            type: "ipvlan",
            master: "out0",
            ipam: { ...STATIC, addresses: [{ address: "10.8.0.1/24" }] },
          }],
        }),
      ),
    ),
  },
  {
    name: "an MTU that the uplink does not have",
    checks: ["link-unusable"],
    message: /"more" sets MTU 9000, but its master "out0" has 1500/,
    // What the node sends must pass the network behind it.
    command: /^ip link show out0$/,
    seed: network({ type: "macvlan", master: "out0", mtu: 9000, ipam: STATIC }),
  },
  {
    name: "an MTU that the master does not have",
    checks: ["link-unusable"],
    message: /"more" sets MTU 9000, but its master "far0" has 1500/,
    seed: both(
      ip(
        "ip link add far0 type veth peer name far1; ip link set far0 up; ip link set far1 up",
        "ip link del far0",
      ),
      network({ type: "macvlan", master: "far0", mtu: 9000, ipam: STATIC }),
    ),
    follow: true,
  },
  {
    name: "another link has the bridge's name",
    checks: ["bridge-name"],
    message:
      /"br9", the bridge of "more", is not a bridge but a link of type veth/,
    seed: both(
      ip("ip link add br9 type veth peer name br9p", "ip link del br9"),
      bridged(["10.9.0.0/24"], {}),
    ),
  },
  {
    name: "a static neighbour with another MAC",
    checks: ["neighbor-wrong"],
    message:
      /a static neighbour of the node has 02:00:00:00:00:99 for 10.2.0.2/,
    seed: ip(
      "ip neigh replace 10.2.0.2 lladdr 02:00:00:00:00:99 dev lan0 nud permanent",
      "ip neigh del 10.2.0.2 dev lan0 || true",
    ),
    follow: true,
  },
  {
    name: "a static neighbour for the gateway in the container",
    checks: ["neighbor-wrong"],
    message:
      /a static neighbour in default\/db eth0 has 02:00:00:00:00:99 for its/,
    seed: ip(
      "ip neigh replace 10.2.0.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
      "ip neigh del 10.2.0.1 dev eth0 || true",
      inOther,
    ),
    follow: true,
  },
  {
    name: "a neighbour on the bridge with a container's address",
    checks: ["address-twice"],
    message:
      /02:00:00:00:00:77 on "lan0" also has 10.2.0.2, .* of default\/db eth0/,
    seed: (scene) => {
      const other = scene.hosts.addNetns();
      scene.sh(
        `ip link add odd0 up master lan0 type veth peer name odd1 address 02:00:00:00:00:77`,
      );
      scene.sh(
        `exec 9<${other.path}; ip link set odd1 netns /proc/self/fd/9`,
      );
      scene.sh("ip addr add 10.2.0.2/24 dev odd1; ip link set odd1 up", other);
      return () => {
        scene.sh("ip link del odd0; ip neigh flush all");
        scene.sh("ip neigh flush all", scene.other);
      };
    },
  },
  {
    name: "a port of the host that is mapped twice",
    checks: ["port-twice"],
    message:
      /port 8080 \(tcp\) of the host is mapped twice: to default\/.* and to default/,
    seed: ports("lan-fedcba9876543210-eth0", "pods-0123456789abcdef-eth0"),
  },
  {
    name: "flannel's subnet is another one than its bridge's",
    checks: ["bridge-address"],
    message:
      /bridge "cni0" has 10.244.0.1\/24, and "more" needs 10.244.1.1\/24/,
    seed: flannel,
    follow: true,
  },
  {
    name: "a static entry of a bridge that leads to another port",
    checks: ["mac-twice"],
    message:
      /"lan0" sends frames for \S+, the MAC of default\/db eth0, to the port "tun9"/,
    seed: async (scene) => {
      const mac = macOf(scene);
      const undo = await tunnel(
        "ip link set tun9 master lan0; " +
          `bridge fdb replace ${mac} dev tun9 master static sticky`,
      )(scene);
      return async () => {
        await undo();
        // The port's MAC may have been the bridge's.
        scene.sh("ip neigh flush all", scene.other);
      };
    },
    follow: true,
  },
  {
    name: "a container that takes the MAC of another machine behind its bridge",
    checks: ["mac-twice", "attachment-changed"],
    message:
      /default\/db eth0 changed its MAC from \S+ to 02:00:00:00:00:09, which is also behind another port of "lan0"/,
    // No command deletes the entry of the machine whose MAC it is.
    command: /^bridge fdb show br lan0/,
    seed: async (scene) => {
      const mac = macOf(scene);
      const undo = await tunnel(
        "ip link set tun9 master lan0; " +
          "bridge fdb replace 02:00:00:00:00:09 dev tun9 master static sticky",
      )(scene);
      const set = (mac: string): string =>
        scene.sh(`ip link set eth0 address ${mac}`, scene.other);
      set("02:00:00:00:00:09");
      return async () => {
        set(mac);
        await undo();
        scene.sh("ip neigh flush all", scene.other);
      };
    },
  },
  {
    name: "a container that takes the MAC of another container",
    checks: ["mac-twice", "attachment-changed"],
    message: /default\/db eth0 changed its MAC from \S+ to \S+, which is also/,
    seed: async (scene) => {
      const mac = macOf(scene);
      const change = (mac: string): string =>
        scene.sh(`ip link set eth0 address ${mac}`, scene.other);
      change("02:00:00:00:00:09");
      const undo = await attachTwin(scene);
      return async () => {
        await undo();
        change(mac);
      };
    },
  },
  {
    name: "two containers with one static address",
    checks: ["address-twice"],
    message: /default\/one eth0 and default\/two eth0 both have 10.66.0.5$/m,
    seed: async (scene) => {
      const ipam = {
        type: "static",
        addresses: [{ address: "10.66.0.5/24", gateway: "10.66.0.1" }],
      };
      const path = scene.writeNetwork("30-more", [
        { type: "bridge", bridge: "br9", isGateway: true, ipam },
      ]);
      const pods = ["one", "two"].map((pod, at) => ({
        pod,
        id: `${at}`.repeat(16),
        netns: scene.hosts.addNetns(),
      }));
      for (const { pod, id, netns } of pods) {
        await scene.attach("30-more", netns, id, pod);
      }
      return async () => {
        for (const { id, netns } of pods) {
          await scene.detach("30-more", netns, id);
        }
        await Deno.remove(path);
        scene.ip("link del br9");
      };
    },
  },
  {
    name: "two containers with one MAC behind a bridge",
    checks: ["mac-twice"],
    message: /default\/twin eth0 and default\/db eth0 both have MAC/,
    seed: attachTwin,
  },
];
