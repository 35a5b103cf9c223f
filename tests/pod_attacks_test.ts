/**
 * What the author of a pod can do to the node and to other pods by annotations:
 * through thin multus and through the daemon, as executables.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../base/json/json.ts";
import { runIn } from "../testing/ip_json.ts";
import { eventually } from "./_harness/eventually.ts";
import {
  BIN,
  type HostPod,
  hostTest,
  MultusHost,
  type PodOptions,
} from "../plugins/multus/testing/host.ts";
import { MultusDaemon } from "../plugins/multus/testing/daemon.ts";

const VICTIM = { ip: "10.60.0.5/24", mac: "02:00:00:00:00:0a" };

/** An annotation, and how ADD ends. */
interface Attack {
  readonly title: string;
  readonly pod: PodOptions;
  /** A part of the error; undefined if it is without effect. */
  readonly refused: string | undefined;
  /** Whether an event tells the pod of it. */
  readonly isTold?: boolean;
}

/** Runs multus where the kubelet has given a device to another pod. */
const WITH_KUBELET: readonly string[] = [
  "/usr/bin/unshare",
  "-m",
  "sh",
  "-c",
  `mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/kubelet/device-plugins &&
   echo '{"Data":{"PodDeviceEntries":[{"PodUID":"uid-of-victim",
     "ResourceName":"vendor.com/nic","DeviceIDs":{"0":["0000:3d:00.1"]}}]}}' \
     > /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint &&
   exec "$0"`,
  `${BIN}/multus`,
];

const NO_IPS = 'not offer it by the capability "ips"';
const NO_MAC = 'not offer it by the capability "mac"';
const NO_ARG = 'of "cni-args" on network';
const NO_DEVICE = "neither the kubelet nor a resource claim allocated it";
const NO_HOST = "no container can have it";
const TAKEN = 'pod "default/victim" has it';

const on = (name: string, keys: JsonObject): PodOptions => ({
  networks: [{ name, ...keys }],
});
const args = (name: string, cniArgs: JsonObject): PodOptions =>
  on(name, { "cni-args": cniArgs });
/** The addresses that a pod requests, without their lengths. */
const requestedIpsOf = ({ networks }: PodOptions): string[] =>
  typeof networks === "object"
    ? networks.flatMap(({ ips }) => (ips ?? []) as string[])
      .map((ip) => ip.replace(/\/.*/, ""))
    : [];
const attack = (
  title: string,
  pod: PodOptions,
  refused: string | undefined,
  isTold = true,
): Attack => ({ title, pod, refused, isTold });

const ATTACKS: readonly Attack[] = [
  attack(
    "a link of the node by a path as deviceID",
    on("device", { deviceID: "../../../../run/podvol" }),
    NO_DEVICE,
  ),
  attack(
    "another pod's PCI device",
    on("device", { deviceID: "0000:3d:00.1" }),
    NO_DEVICE,
  ),
  attack(
    "the same over a network with a resource",
    on("resource", { deviceID: "0000:3d:00.1" }),
    NO_DEVICE,
  ),
  attack(
    "an address of a neighbour by ips",
    on("fixed", { ips: ["10.9.9.9/24"] }),
    NO_IPS,
  ),
  attack(
    "the same by cni-args",
    args("fixed", { ips: ["10.9.9.9/24"] }),
    NO_IPS,
  ),
  attack(
    "the same in another case",
    args("fixed", { IPs: ["10.9.9.9/24"] }),
    NO_IPS,
  ),
  attack(
    "the same in two cases",
    args("fixed", { IPS: ["10.9.9.9/24"], ips: [] }),
    NO_IPS,
  ),
  attack("the same in place of the cluster's network", {
    annotations: {
      "v1.multus-cni.io/default-network": JSON.stringify([
        { name: "fixed", namespace: "default", ips: ["10.9.9.9/24"] },
      ]),
    },
  }, NO_IPS),
  attack(
    "an address outside of the definition's subnet",
    on("bounded", { ips: ["10.62.0.9/8"] }),
    "the definition's addresses are in 10.61.0.0/24",
  ),
  attack(
    "an address of the definition's subnet with another length",
    on("bounded", { ips: ["10.61.0.9/16"] }),
    "the definition's subnet is 10.61.0.0/24",
  ),
  attack(
    "another pod's address",
    on("lan", { ips: [VICTIM.ip] }),
    TAKEN,
  ),
  attack(
    "another pod's address with another length",
    on("lan", { ips: ["10.60.0.99/24", "10.60.0.5/8"] }),
    TAKEN,
  ),
  attack(
    "another pod's address by another network of the bridge",
    on("same-lan", { ips: [VICTIM.ip] }),
    TAKEN,
  ),
  attack(
    "another pod's address by a network that the node routes",
    on("routed", { ips: [VICTIM.ip] }),
    TAKEN,
  ),
  attack(
    "another pod's address by cni-args",
    args("lan", { ips: [VICTIM.ip] }),
    TAKEN,
  ),
  attack(
    "another pod's address as an IPv6 one",
    on("lan", { ips: ["::ffff:10.60.0.5/120"] }),
    TAKEN,
  ),
  attack(
    "another pod's address with more digits",
    on("lan", { ips: ["010.060.000.005/24"] }),
    "failed to parse CIDR",
    false,
  ),
  attack(
    "the node's packets to a group",
    on("routed", { ips: ["224.0.0.251/32"] }),
    NO_HOST,
  ),
  attack(
    "the node's broadcasts",
    on("routed", { ips: ["255.255.255.255/32"] }),
    NO_HOST,
  ),
  attack(
    "the node's packets to an IPv6 group",
    on("routed", { ips: ["ff02::fb/128"] }),
    NO_HOST,
  ),
  attack(
    "the address of no host",
    on("routed", { ips: ["0.0.0.0/32"] }),
    NO_HOST,
  ),
  attack(
    "the address of the router of a network",
    on("bounded", { ips: ["10.61.0.254/24"] }),
    "it is a gateway of the definition",
  ),
  attack(
    "all networks by the gateway of an address",
    on("gateway", { ips: ["10.60.0.9/0"] }),
    'Cannot assign 0.0.0.1/0 to "br-gw": the host reaches 10.',
    false,
  ),
  attack(
    "an address of the node",
    on("lan", { ips: ["192.0.2.7/24"] }),
    "the node has it",
  ),
  attack(
    "an address of the node's neighbour",
    on("routed", { ips: ["192.0.2.9/24"] }),
    "the node's network 192.0.2.0/24 has it",
  ),
  attack(
    "a network on the node by the gateway of an address",
    on("gateway", { ips: ["10.60.0.9/8"] }),
    'Cannot assign 10.0.0.1/8 to "br-gw": the host reaches 10.',
    false,
  ),
  attack(
    "the same outside the ranges of whereabouts",
    on("pooled", { ips: ["10.60.0.9/8"] }),
    'Cannot assign 10.0.0.1/8 to "br-pool": the host reaches 10.',
    false,
  ),
  attack(
    "another pod's lease",
    on("leases", { ips: ["10.63.0.2"] }),
    TAKEN,
  ),
  attack(
    "an address beside host-local's range",
    on("leases", { ips: ["10.9.9.9"] }),
    "failed to allocate all requested IPs: 10.9.9.9",
    false,
  ),
  attack(
    "the gateway's address",
    on("leases", { ips: ["10.63.0.1"] }),
    "the node has it",
  ),
  attack(
    "a MAC by mac",
    on("leases", { mac: "02:00:00:00:00:99" }),
    NO_MAC,
  ),
  attack(
    "a MAC by cni-args",
    args("leases", { MAC: "02:00:00:00:00:99" }),
    NO_MAC,
  ),
  attack("another pod's MAC", on("lan", { mac: VICTIM.mac }), TAKEN),
  attack(
    "another pod's MAC, written differently",
    on("lan", { mac: "02-00-00-00-00-0A" }),
    TAKEN,
  ),
  attack(
    "another pod's MAC on another network",
    on("layer2", { mac: VICTIM.mac }),
    TAKEN,
  ),
  ...Object.entries({
    sysctl: { "net.ipv4.ip_forward": "1" },
    promisc: true,
    allmulti: true,
    mtu: 9000,
    txQLen: 100000,
    PROMISC: true,
  }).map(([key, value]) =>
    attack(`${key} by cni-args`, args("tuned", { [key]: value }), NO_ARG)
  ),
  attack(
    "a sysctl over a network of a trusted namespace",
    on("trusted", {
      namespace: "trusted",
      "cni-args": { sysctl: { "net.ipv4.ip_forward": "1" } },
    }),
    NO_ARG,
  ),
  attack(
    "a sysctl over a network in a file",
    args("file", { sysctl: { "net.ipv4.ip_forward": "1" } }),
    NO_ARG,
  ),
  attack(
    "a directory on the node by cni-args",
    args("leases", { labels: [{ dataDir: "/etc" }] }),
    'Refused "cni-args" on network "default/leases": "labels[0].dataDir" names',
  ),
  attack(
    "the same over a network of a trusted namespace",
    on("trusted", {
      namespace: "trusted",
      "cni-args": { labels: [{ dataDir: "/etc" }] },
    }),
    'Refused "cni-args" on network "trusted/trusted"',
  ),
  attack(
    "the same over a network in a file",
    args("file", { labels: [{ dataDir: "/etc" }] }),
    'Refused "cni-args" on network "default/file"',
  ),
  attack(
    "a program of the node by cni-args",
    args("leases", { labels: { type: "debug" } }),
    "not allowed to run",
  ),
  attack(
    "another pod's IPAMClaim",
    args("leases", { "ipam-claim-reference": "victim" }),
    NO_ARG,
  ),
  attack(
    "another pod's identity",
    args("leases", { "cni.dev/pod": { uid: "uid-of-victim" } }),
    NO_ARG,
  ),
  attack(
    "more CNI_ARGS behind a MAC",
    on("lan", { mac: "02:00:00:00:00:99;IP=10.60.0.5/24" }),
    "invalid MAC address",
    false,
  ),
  attack(
    "more CNI_ARGS behind an address",
    on("lan", { ips: ["10.60.0.9/24;K8S_POD_NAME=victim"] }),
    "failed to parse CIDR",
    false,
  ),
  attack(
    "another API object by a network's name",
    on("../../../../../api/v1/namespaces/default/secrets/x", {}),
    "no object can have the name",
    false,
  ),
  attack(
    "a route to the cluster's services",
    on("leases", { "dev.cni.routes": [{ dst: "10.96.0.0/12" }] }),
    '"podRoutes"',
  ),
  attack(
    "the interface of the cluster's network",
    on("leases", { interface: "eth0" }),
    "eth0",
    false,
  ),
  attack(
    "more networks than a pod can have",
    { networks: Array(129).fill("leases").join(",") },
    "a pod can have 128",
    false,
  ),
  attack(
    "more addresses than a pod can have",
    on("lan", { ips: Array(17).fill("10.60.0.77/24") }),
    "a network can have 16",
    false,
  ),
  attack(
    "more host ports than a pod can have",
    on("leases", {
      portMappings: Array(129).fill({ hostPort: 80, containerPort: 80 }),
    }),
    "a pod can have 128",
    false,
  ),
  attack(
    "not an attack: a free address of the range",
    on("leases", { ips: ["10.63.0.77"] }),
    undefined,
  ),
  attack(
    "not an attack: a request that the definition offers",
    on("lan", { ips: ["10.60.0.77/24"], mac: "02:00:00:00:00:77" }),
    undefined,
  ),
  attack(
    "not an attack: an address of each family",
    on("dual", { ips: ["10.64.0.7/24", "fd64::7/64"] }),
    undefined,
  ),
  attack(
    "nothing of others: the same by the capability",
    on("offered-dual", { ips: ["10.64.0.8/24", "fd64::8/64"] }),
    undefined,
  ),
  attack(
    "host ports over a network that offers none",
    on("leases", { portMappings: [{ hostPort: 80, containerPort: 80 }] }),
    undefined,
  ),
  attack(
    "bandwidth over a network that offers none",
    on("leases", { bandwidth: { ingressRate: 1 } }),
    undefined,
  ),
];

class Node implements AsyncDisposable {
  readonly host: MultusHost;
  readonly daemon: MultusDaemon;

  private constructor(host: MultusHost, daemon: MultusDaemon) {
    this.host = host;
    this.daemon = daemon;
  }

  static async start(): Promise<Node> {
    const host = await MultusHost.start();
    const { hosts, api } = host;
    runIn(hosts.host, "ip", "address", "add", "192.0.2.7/24", "dev", "lo");
    for (const namespace of ["kube-system", "trusted"]) {
      api.put("namespaces", { metadata: { name: namespace } });
    }
    const put = (
      name: string,
      keys: JsonObject,
      namespace = "default",
    ): unknown =>
      api.putNad(namespace, name, { cniVersion: "1.0.0", name, ...keys });
    const lan = {
      type: "bridge",
      bridge: "br-lan",
      capabilities: { ips: true, mac: true },
      ipam: { type: "static" },
    };
    const leases = { type: "ptp", ipam: hosts.hostLocal("10.63.0.0/24") };
    put("lan", lan);
    put("same-lan", lan);
    put("routed", { ...lan, type: "ptp" });
    put("gateway", { ...lan, bridge: "br-gw", isGateway: true });
    put("fixed", { ...lan, capabilities: {} });
    put("bounded", {
      ...lan,
      ipam: {
        type: "static",
        addresses: [{ address: "10.61.0.1/24", gateway: "10.61.0.254" }],
      },
    });
    put("layer2", { type: "bridge", bridge: "br-vms" });
    put("leases", leases);
    const dual = {
      type: "bridge",
      bridge: "br-dual",
      ipam: {
        type: "host-local",
        dataDir: `${hosts.directory}/leases`,
        ranges: [[{ subnet: "10.64.0.0/24" }], [{ subnet: "fd64::/64" }]],
      },
    };
    put("dual", dual);
    put("offered-dual", { ...dual, capabilities: { ips: true } });
    put("tuned", { plugins: [leases, { type: "tuning", mtu: 1400 }] });
    put("device", {
      type: "host-device",
      capabilities: { deviceID: true },
    });
    put("trusted", leases, "trusted");
    for (const name of ["file", "pooled"]) {
      api.put("network-attachment-definitions", {
        metadata: { namespace: "default", name },
        spec: { config: "" },
      });
    }
    api.put("network-attachment-definitions", {
      metadata: {
        namespace: "default",
        name: "resource",
        annotations: { "k8s.v1.cni.cncf.io/resourceName": "vendor.com/nic" },
      },
      spec: {
        config: JSON.stringify({
          cniVersion: "1.0.0",
          name: "resource",
          type: "host-device",
          capabilities: { deviceID: true },
        }),
      },
    });
    Deno.mkdirSync(`${hosts.directory}/net.d`);
    const pooled = {
      ...lan,
      bridge: "br-pool",
      isGateway: true,
      ipam: {
        type: "whereabouts",
        range: "10.66.0.2-10.66.0.99/24",
        kubernetes: { kubeconfig: host.kubeconfig },
      },
    };
    for (const [name, conf] of Object.entries({ file: leases, pooled })) {
      Deno.writeTextFileSync(
        `${hosts.directory}/net.d/${name}.conf`,
        JSON.stringify({ cniVersion: "1.0.0", name, ...conf }),
      );
    }
    const daemon = await MultusDaemon.start(host);
    const node = new Node(host, daemon);
    await node.addVictim();
    return node;
  }

  async addVictim(): Promise<void> {
    const pod = this.host.addPod("victim", {
      networks: [
        { name: "lan", ips: [VICTIM.ip], mac: VICTIM.mac },
        { name: "leases" },
      ],
    });
    await this.host.succeed("ADD", pod);
    assertEquals(this.host.interfaces(pod), ["eth0", "lo", "net1", "net2"]);
  }

  /** @param way Thin multus, or the daemon */
  async add(pod: HostPod, way: string): Promise<string | undefined> {
    const { host, daemon } = this;
    const none = `${host.hosts.directory}/none`;
    const keys = {
      daemonSocketDir: way === "daemon" ? daemon.socketDir : none,
      trustedNamespaces: ["trusted"],
      multusNamespace: "kube-system",
    };
    const command = way === "with a kubelet" ? WITH_KUBELET : undefined;
    const { code, json } = await host.call("ADD", pod, {
      keys,
      ...command && { command },
    });
    if (code === 0) return undefined;
    assert([4, 7].includes(json.code), JSON.stringify(json));
    return json.msg;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.host[Symbol.asyncDispose]();
  }
}

/** What others have: the node's links, addresses, routes and rules. */
function stateOf({ hosts: { host } }: MultusHost): string[] {
  return [
    runIn(host, "ip", "-brief", "-4", "address"),
    runIn(host, "ip", "route"),
    runIn(host, "nft", "list", "ruleset"),
  ];
}

hostTest("the author of a pod takes nothing of other pods", async (t) => {
  await using node = await Node.start();
  const { host } = node;
  let index = 0;
  for (const { title, pod: options, refused, isTold } of ATTACKS) {
    await t.step(title, async () => {
      const state = stateOf(host);
      const ways = refused === NO_DEVICE
        ? ["with a kubelet"]
        : ["thin", "daemon"];
      for (const way of ways) {
        const pod = host.addPod(`attack-${index++}`, options);
        const message = await node.add(pod, way);
        if (refused === undefined) {
          assertEquals(message, undefined, way);
          const { ips: given = [] } = host.status(pod).at(-1);
          const wanted = requestedIpsOf(options);
          assertEquals(wanted.filter((ip) => !given.includes(ip)), [], way);
        } else assertStringIncludes(message ?? "it was done", refused, way);
        // What is refused before any plugin runs leaves nothing for DEL.
        if (!isTold || refused === undefined) await host.succeed("DEL", pod);
        assertEquals(host.remainsOf(pod), [], way);
        assertEquals(stateOf(host), state, way);
        const countEvents = (): number =>
          host.api.events.filter(({ reason, involvedObject }) =>
            reason === "NetworkRefused" && involvedObject.name === pod.name
          ).length;
        const isExpected = refused !== undefined && isTold === true;
        // The daemon posts events beside its calls.
        if (isExpected) await eventually(way, () => countEvents() === 1);
        else assertEquals(countEvents(), 0, way);
      }
    });
  }
});
