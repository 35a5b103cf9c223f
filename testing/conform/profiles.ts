/**
 * What plugins need to be tried: built-in guesses by type, in the form of a
 * configuration file.
 *
 * @module
 */

import type { Kind } from "./scene.ts";
import type { Attachment, Json, Scene, Subject } from "./scene.ts";

/** The needs of a plugin, as a configuration file says them. */
export interface Profile {
  /** Its purpose; found out if undefined. */
  readonly kind?: Kind;
  /**
   * Keys of the configuration; `${N}` is the container's number, from 1, and
   * `${VERSION}` the version.
   */
  readonly config?: Json;
  /** The interface's name. */
  readonly ifName?: string;
  /**
   * Variables in addition to the protocol's; `${N}` is the container's number.
   */
  readonly env?: Readonly<Record<string, string>>;
  /** Files of the node, by path. */
  readonly files?: Readonly<Record<string, string>>;
  /** Shell commands that make the node ready. */
  readonly host?: readonly string[];
  /** Shell commands that start daemons; each waits until its own is ready. */
  readonly daemons?: readonly string[];
  /** Shell commands before each container's ADD, on the node. */
  readonly each?: readonly string[];
  /** Shell commands after it is detached. */
  readonly end?: readonly string[];
  /** The result of the plugins before; true for a veth pair with an address. */
  readonly prevResult?: boolean | Json;
  /** Keys of a configuration with room for one container only. */
  readonly full?: Json;
  /** How many containers can be attached at the same time. */
  readonly most?: number;
  /** Requirements that do not apply, with the reason. */
  readonly except?: Readonly<Record<string, string>>;
  /** Expression for what may change: lines such as `link cni0`. */
  readonly keeps?: string;
}

const IPAM = {
  type: "host-local",
  ranges: [[{ subnet: "10.88.0.0/16" }], [{ subnet: "fd00:88::/64" }]],
  routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
};
const FULL = { type: "host-local", ranges: [[{ subnet: "10.89.0.0/30" }]] };
const MASTER = [
  "ip link add up0 type veth peer name up1",
  "ip link set up0 up",
  "ip link set up1 up",
];

const plain = (config: Json = {}, more: Profile = {}): Profile => ({
  kind: "interface",
  config: { ...config, ipam: IPAM },
  ...more,
});
const chained = (config: Json, more: Profile = {}): Profile => ({
  kind: "chained",
  config,
  prevResult: true,
  ...more,
});

/** A plugin about which nothing is known. */
export const UNKNOWN: readonly Profile[] = [
  plain(),
  chained({}),
  { kind: "ipam", config: {} },
];

/** The needs of the usual plugins, by type. */
export const PROFILES: Readonly<Record<string, Profile>> = {
  bridge: plain({ bridge: "cni0", isGateway: true, ipMasq: true }),
  ptp: plain({ ipMasq: true }),
  macvlan: plain({ master: "up0" }, { host: MASTER }),
  ipvlan: plain({ master: "up0" }, { host: MASTER }),
  vlan: plain({ master: "up0", vlanId: "${N+100}" }, { host: MASTER }),
  "host-device": plain({ device: "dev${N}" }, {
    each: ["ip link add dev${N} type veth peer name peer${N}"],
    end: ["ip link del peer${N} 2> /dev/null || true"],
  }),
  tap: plain(),
  dummy: plain(),
  loopback: {
    kind: "interface",
    config: {},
    ifName: "lo",
    except: {
      "at-once": "127.0.0.1 is the address of every container",
    },
  },
  "host-local": {
    kind: "ipam",
    config: { ipam: IPAM },
    full: { ipam: FULL },
  },
  static: {
    kind: "ipam",
    config: {
      ipam: {
        type: "static",
        addresses: [{ address: "10.88.0.5/24", gateway: "10.88.0.1" }],
      },
    },
    except: { "at-once": "it gives the same address to all" },
  },
  dhcp: { kind: "ipam", config: { ipam: { type: "dhcp" } } },
  portmap: chained({
    capabilities: { portMappings: true },
    runtimeConfig: {
      portMappings: [
        { hostPort: "${N+8000}", containerPort: 80, protocol: "tcp" },
      ],
    },
  }),
  firewall: chained({ backend: "iptables" }),
  bandwidth: chained({
    ingressRate: 1_000_000,
    ingressBurst: 1_000_000,
    egressRate: 1_000_000,
    egressBurst: 1_000_000,
  }),
  tuning: chained({
    sysctl: { "net.core.somaxconn": "500" },
    mtu: 1400,
    mac: "02:00:5e:10:00:01",
  }),
  sbr: chained({}),
  vrf: chained({ vrfname: "red" }),
  "route-override": chained({
    flushroutes: true,
    addroutes: [{ dst: "198.51.100.0/24" }],
  }),
  flannel: {
    kind: "interface",
    config: {},
    files: {
      "/run/flannel/subnet.env": "FLANNEL_NETWORK=10.88.0.0/16\n" +
        "FLANNEL_SUBNET=10.88.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
    },
  },
  multus: {
    kind: "interface",
    config: {
      delegates: [
        { cniVersion: "${VERSION}", name: "net1", type: "ptp", ipam: IPAM },
      ],
    },
  },
  chain: {
    kind: "interface",
    config: {
      plugins: [
        { type: "ptp", ipMasq: true, ipam: IPAM },
        { type: "tuning", mtu: 1400 },
        { type: "sbr" },
      ],
    },
  },
};

/**
 * Makes a subject of what a plugin needs.
 *
 * @param isGuess Whether the requirements are a guess
 */
export function subjectOf(
  type: string,
  profile: Profile,
  isGuess = false,
): Subject {
  const { kind = "interface", config = {}, env = {}, keeps } = profile;
  return {
    type,
    kind,
    isGuess,
    ifName: profile.ifName,
    env: (attachment) => {
      const filled: Json = fill(env, attachment?.number ?? 0);
      return Object.fromEntries(
        Object.entries(filled).map(([key, value]) => [key, String(value)]),
      );
    },
    full: profile.full,
    most: profile.most,
    except: profile.except,
    keeps: keeps === undefined ? undefined : new RegExp(keeps),
    config: (attachment, version) => ({
      ...fill(config, attachment?.number ?? 0, version),
      type,
    }),
    prepare: (scene) => prepare(scene, profile),
    before: profile.each === undefined && profile.prevResult === undefined
      ? undefined
      : (scene, one) => before(scene, one, profile),
    after: (scene, one) => {
      const pair = profile.prevResult === true ? [END_OF_PAIR] : [];
      for (const line of [...pair, ...profile.end ?? []]) {
        scene.shell(String(fill(line, one.number)));
      }
    },
  };
}

/** The kernel would delete it some time after the namespace. */
const END_OF_PAIR = "ip link del veth${N} 2> /dev/null || true";

function prepare(scene: Scene, profile: Profile): void {
  const { files = {}, host = [], daemons = [] } = profile;
  for (const [path, text] of Object.entries(files)) scene.write(path, text);
  for (const line of [...host, ...daemons]) scene.shell(line);
}

function before(
  scene: Scene,
  one: Attachment,
  { each = [], prevResult }: Profile,
): Json | undefined {
  for (const line of each) scene.shell(String(fill(line, one.number)));
  if (typeof prevResult === "object") {
    return fill(prevResult, one.number) as Json;
  }
  return prevResult ? connect(scene, one) : undefined;
}

/** Connects a container by a veth pair, as an interface plugin would. */
function connect(scene: Scene, one: Attachment): Json {
  const { number, containerId: id, ifName, sandbox } = one;
  const address = `10.77.${number >> 8}.${number & 0xff}`;
  const gateway = "10.77.255.1";
  const port = `veth${number}`;
  const start = scene.transcript.length;
  scene.shell(
    `ip link add ${port} type veth peer name ${ifName} ` +
      `netns ${sandbox.path}; ip link set ${port} up`,
  );
  const [link] = JSON.parse(scene.shell(
    `ip link set ${ifName} up; ` +
      `ip address add ${address}/16 dev ${ifName}; ` +
      `ip route add default via ${gateway}; ip -j link show ${ifName}`,
    one,
  ));
  const mac = link.address;
  scene.transcript.splice(
    start,
    Infinity,
    `ip link add ${port} type veth peer name ${ifName} address ${mac} ` +
      `netns ${id}; ip link set ${port} up; ip -n ${id} link set ${ifName} up; ` +
      `ip -n ${id} address add ${address}/16 dev ${ifName}; ` +
      `ip -n ${id} route add default via ${gateway}`,
  );
  const ip = { address: `${address}/16`, gateway, interface: 1 };
  const isPair = scene.version < "0.3.0";
  const isNew = scene.version >= "1.0.0";
  return isPair
    ? {
      cniVersion: scene.version,
      ip4: { ip: ip.address, gateway, routes: [{ dst: "0.0.0.0/0" }] },
    }
    : {
      cniVersion: scene.version,
      interfaces: [
        { name: port },
        { name: ifName, mac, sandbox: sandbox.path },
      ],
      ips: [isNew ? ip : { version: "4", ...ip }],
      routes: [{ dst: "0.0.0.0/0" }],
      dns: { nameservers: ["10.77.255.53"] },
    };
}

/**
 * Puts a container's number and the version into texts: `${N}`, or `${N+100}` as a
 * number, and `${VERSION}`.
 */
// deno-lint-ignore no-explicit-any -- the value keeps its type
function fill(value: any, number: number, version = ""): any {
  if (Array.isArray(value)) {
    return value.map((one) => fill(one, number, version));
  }
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [
        key,
        fill(one, number, version),
      ]),
    );
  }
  if (typeof value !== "string") return value;
  if (value === "${VERSION}") return version;
  const whole = /^\$\{N(?:\+(\d+))?\}$/.exec(value);
  if (whole) return number + Number(whole[1] ?? 0);
  return value.replace(
    /\$\{N(?:\+(\d+))?\}/g,
    (_, more = 0) => String(number + Number(more)),
  );
}
