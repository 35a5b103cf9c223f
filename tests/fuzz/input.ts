/**
 * One random call of a plugin: the same for a seed whatever happened before, so
 * that the seed is all that is needed to see it again.
 *
 * @module
 */

import { COMMANDS } from "../../cni/call/args.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { createRandom, type Random } from "../_harness/repetition.ts";
import { damage, mutate, rewrite } from "./mutation.ts";
import { TEXTS } from "./values.ts";

/**
 * A call. In all of its texts `@host` and `@sandbox` stand for the paths of the
 * namespaces in which it takes place.
 */
export interface FuzzInput {
  readonly plugin: string;
  readonly env: Readonly<Record<string, string>>;
  /** One character a byte, as in Latin-1: it need not be UTF-8. */
  readonly stdin: string;
  /** What becomes of delegation: it is done, or answered at random from a seed. */
  readonly delegation: "done" | number;
}

/** Creates the input of a seed. */
export function makeInput(seed: number): FuzzInput {
  const random = createRandom(seed);
  const plugin = pluginNames[random.below(pluginNames.length)] ?? "";
  return {
    plugin,
    env: makeEnvironment(random),
    stdin: makeStdin(random, plugin),
    delegation: random.once(3) ? "done" : random.below(2 ** 31),
  };
}

type Pool = readonly [string, ...string[]];

/** Values of which most are such as a runtime might set. */
const POOLS: Readonly<Record<string, Pool>> = {
  CNI_COMMAND: ["ADD", "ADD", "ADD", ...COMMANDS, ...COMMANDS, ...COMMANDS]
    .concat("VERSION", "NOPE") as unknown as Pool,
  CNI_CONTAINERID: ["c", "a51debf7e1eb"],
  CNI_NETNS: [...Array(9).fill("@sandbox"), "@host", "/nonexistent", ""]
    .concat("/proc/self/ns/mnt", "/", "/dev/null") as unknown as Pool,
  CNI_IFNAME: ["eth0", "eth0", "eth0", "eth0", "lo", "net1", "a".repeat(15)],
  CNI_ARGS: ["", "", "", "", "IP=10.1.2.9", "IgnoreUnknown=1;A=b", "A=b"],
  CNI_PATH: ["@path", "@path", "@path", "@path", "/nonexistent"],
  CNI_NETNS_OVERRIDE: ["", "", "", "1"],
};

function makeEnvironment(random: Random): Record<string, string> {
  const entries = Object.entries(POOLS).map(([name, pool]) => [
    name,
    // Namespaces come from the list alone: they must not be anybody's.
    name !== "CNI_NETNS" && random.once(40)
      ? random.pick(TEXTS)
      : random.pick(pool),
  ]);
  return Object.fromEntries(entries.filter(() => !random.once(60)));
}

function makeStdin(random: Random, plugin: string): string {
  let config: unknown = makeConfig(random, plugin);
  for (let left = random.below(4); left > 0; left--) {
    config = mutate(config, random);
  }
  let text = JSON.stringify(config);
  if (random.once(8)) text = rewrite(text, random);
  if (random.once(4)) text += "\n";
  const bytes = new TextEncoder().encode(text);
  return showBytes(random.once(8) ? damage(bytes, random) : bytes);
}

/** A configuration that every plugin finds something in, and some all they need. */
function makeConfig(random: Random, type: string): Record<string, unknown> {
  // An IPv6 address takes its time to become usable.
  const subnet = random.once(20) ? "2001:db8:1::/64" : "10.1.2.0/24";
  const cniVersion = random.once(2) ? "1.1.0" : random.pick(SPEC_VERSIONS);
  return {
    cniVersion,
    name: "net1",
    type,
    ...LINKS,
    ...TRAFFIC,
    ipMasq: random.once(4),
    ipam: { ...IPAM, subnet },
    dns: { nameservers: ["10.1.2.1"] },
    plugins: CHAINED,
    args: { cni: { ips: [] } },
    runtimeConfig: {
      ips: [],
      ipRanges: [],
      mac: "02:00:00:00:00:02",
      portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
      bandwidth: { ingressRate: 1_000_000, ingressBurst: 1_000_000 },
    },
    ...random.once(2) ? { prevResult: PREV_RESULT } : {},
    "cni.dev/valid-attachments": [{ containerID: "c", ifname: "eth0" }],
  };
}

const LINKS = {
  mtu: 1400,
  master: "eth0",
  device: "eth0",
  bridge: "br0",
  isGateway: true,
  vlanId: 5,
  vrfname: "red",
};

const TRAFFIC = {
  sysctl: { "net.ipv4.conf.all.log_martians": "1" },
  ingressRate: 1_000_000,
  ingressBurst: 1_000_000,
  cniOutput: "calls",
  addHooks: [["true"]],
};

/** Relative paths: they are in a directory of the fuzz's own. */
const IPAM = {
  type: "host-local",
  dataDir: "leases",
  routes: [{ dst: "0.0.0.0/0" }],
  addresses: [{ address: "10.1.2.7/24", gateway: "10.1.2.1" }],
};

/** None makes what would be left if one behind it failed: that is for DEL. */
const CHAINED = [
  { type: "passthru" },
  { type: "loopback", capabilities: { ips: true } },
  { type: "chain", plugins: [{ type: "static", ipam: IPAM }] },
];

const PREV_RESULT = {
  interfaces: [{ name: "eth0", sandbox: "@sandbox" }],
  ips: [{ address: "10.1.2.2/24", interface: 0, gateway: "10.1.2.1" }],
};

/** Shows bytes one by one as Latin-1, which no byte is lost in. */
export function showBytes(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

/** Reads what {@linkcode showBytes} shows. */
export function readBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}
