/**
 * Lists whose plugins come from several projects: ours and the Go plugins in
 * any order, and interface plugins of other projects (cilium, calico, sriov) by
 * scripts that answer as those do.
 */

import { assertEquals } from "@std/assert";
import { isAtLeast } from "../cni/version.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
  rootTest,
} from "../testing/capabilities.ts";
import { linkNames, runIn, snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { needsLinks } from "./_harness/link_kinds.ts";
import { hostLimits, WIDE } from "../plugins/bandwidth/testing/limited_pair.ts";
import { callAs, listPeers, nameOf, type Who } from "./_harness/parity.ts";
import { NEWEST_RELEASE } from "./_harness/peers.ts";
import { PluginDirectory } from "./_harness/plugin_directory.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { needsInetRules } from "./_harness/rules.ts";

/** The keys of plugins, on a host with the links `up0` and `vf0`. */
const KEYS: Readonly<Record<string, (hosts: TestHosts) => Keys>> = {
  "ptp": (hosts) => ({ ipMasq: true, ipam: ipamOf(hosts) }),
  "bridge": (hosts) => ({
    bridge: "br0",
    isGateway: true,
    ipMasq: true,
    ipam: ipamOf(hosts),
  }),
  "macvlan": (hosts) => ({ master: "up0", ipam: ipamOf(hosts) }),
  "ipvlan": (hosts) => ({ master: "up0", ipam: ipamOf(hosts) }),
  "vlan": (hosts) => ({ master: "up0", vlanId: 5, ipam: ipamOf(hosts) }),
  "dummy": (hosts) => ({ ipam: ipamOf(hosts) }),
  "tap": (hosts) => ({ ipam: ipamOf(hosts) }),
  "host-device": (hosts) => ({ device: "vf0", ipam: ipamOf(hosts) }),
  "bandwidth": () => WIDE,
  "sbr": () => ({}),
  "portmap": () => ({
    snat: true,
    runtimeConfig: {
      portMappings: [
        { hostPort: 8080, containerPort: 80, protocol: "tcp" },
        { hostPort: 5353, containerPort: 53, protocol: "udp" },
      ],
    },
  }),
  "firewall": () => ({ backend: "iptables" }),
  "tuning": (hosts) => ({
    sysctl: { "net.ipv4.conf.eth0.log_martians": "1" },
    mtu: 1300,
    dataDir: `${hosts.directory}/tuning`,
  }),
  "vrf": () => ({ vrfname: "blue" }),
};

function ipamOf(hosts: TestHosts): Keys {
  const routes = [{ dst: "0.0.0.0/0" }];
  return { ...hosts.hostLocal("10.1.2.0/24"), routes };
}

/** A plugin of a list, and whose it is. */
interface Link {
  readonly who: Who;
  readonly type: string;
}

/** One container, attached by a list of plugins. */
class Attachment {
  readonly #hosts: TestHosts;
  readonly #links: readonly Link[];
  readonly #network: Keys;
  readonly #goFailsCheck: Readonly<Record<string, string>>;
  #prevResult: unknown;

  constructor(
    hosts: TestHosts,
    links: readonly Link[],
    cniVersion: string,
    goFailsCheck: Row["goFailsCheck"] = {},
  ) {
    this.#hosts = hosts;
    this.#links = links;
    this.#network = { name: "net1", cniVersion };
    this.#goFailsCheck = goFailsCheck;
  }

  /** Runs a command of all plugins, as a runtime does. */
  async run(command: "ADD" | "CHECK" | "DEL"): Promise<void> {
    const links = command === "DEL" ? this.#links.toReversed() : this.#links;
    for (const link of links) await this.#call(link, command);
  }

  /** Runs DEL of our plugins again. Some plugins of Go fail. */
  async delAgain(): Promise<void> {
    for (const link of this.#links.toReversed()) {
      if (link.who === "ours") await this.#call(link, "DEL");
    }
  }

  async #call({ who, type }: Link, command: string): Promise<void> {
    const prevResult = this.#prevResult;
    const config = {
      ...this.#network,
      type,
      ...KEYS[type]?.(this.#hosts),
      ...prevResult === undefined ? {} : { prevResult },
    };
    const call = { type, command, config };
    const output = await callAs(who, this.#hosts, call);
    const { exitCode, stdout, stderr, json } = output;
    const what = `${command} of ${type} (${nameOf(who)}): ${stdout}${stderr}`;
    const reason = command === "CHECK" && who !== "ours"
      ? this.#goFailsCheck[type] ??
        this.#goFailsCheck[`${type} of ${nameOf(who)}`]
      : undefined;
    assertEquals(exitCode, reason === undefined ? 0 : 1, reason ?? what);
    if (who === "ours") assertEquals(stderr, "", what);
    if (command === "ADD") this.#prevResult = json;
  }
}

/** Everything that an attachment may change. */
function stateOf(hosts: TestHosts): unknown {
  const { host, sandbox } = hosts;
  const isShared = ({ ifname, dev }: Record<string, unknown>): boolean =>
    (ifname ?? dev) === "br0";
  const { links, routes, rules } = snapshot(host);
  return {
    links: (links as Keys[]).filter((link) => !isShared(link)).map(describe),
    routes: (routes as []).filter((route) => !isShared(route)),
    rules,
    acting: needsInetRules.ignore
      ? []
      : actingRules(host).filter((rule) => !isSkeleton(rule)),
    qdiscs: hostLimits(host).qdiscs.filter((line) => !/ br0 /.test(line)),
    leases: hosts.leases(),
    sandbox: linkNames(sandbox),
    // The kernel's own rule for VRFs stays.
    rulesInside: (snapshot(sandbox).rules as Keys[])
      .filter((rule) => !("l3mdev" in rule)),
  };
}

/** Leaves out a link's state, which the kernel changes when it likes. */
function describe({ ifname, mtu, address, addr_info }: Keys): Keys {
  return { ifname, mtu, address, addr_info };
}

/** Recognizes rules that attachments share, and that stay after the last DEL. */
function isSkeleton(rule: string): boolean {
  return /CNI-|cni_/.test(rule) && !/10\.1\.2\./.test(rule);
}

/** Attaches a container by a list, checks it, and detaches it twice. */
async function live(
  links: readonly Link[],
  cniVersion: string,
  goFailsCheck: Row["goFailsCheck"] = {},
): Promise<void> {
  using hosts = TestHosts.create();
  for (const name of ["up0", "vf0"]) {
    runIn(hosts.host, "ip", "link", "add", name, "type", "veth");
  }
  runIn(hosts.host, "ip", "link", "set", "up0", "up");
  const before = stateOf(hosts);
  const attachment = new Attachment(hosts, links, cniVersion, goFailsCheck);
  await attachment.run("ADD");
  if (isAtLeast(cniVersion, "0.4.0")) await attachment.run("CHECK");
  await attachment.run("DEL");
  assertEquals(stateOf(hosts), before);
  await attachment.delAgain();
}

/** Runs in the sandbox. */
const INSIDE = 'inside() { nsenter --net="$CNI_NETNS" "$@"; }';

/** Reads stdin; on ADD continues, on DEL deletes a link, otherwise succeeds. */
const onlyAdd = (link: string): string =>
  `set -e
${INSIDE}
stdin=$(cat)
case "$CNI_COMMAND" in
ADD) ;;
DEL) ip link delete ${link} 2>/dev/null || true; exit 0 ;;
*) exit 0 ;;
esac`;

/**
 * Plugins of other projects: what they leave in the kernel, and the form of
 * their results.
 */
const FOREIGN: Readonly<Record<string, string>> = {
  // A /32 behind a veth; only the container's end is in the result.
  "cilium-cni": `${onlyAdd("lxc1")}
ip link add lxc1 type veth peer name tmp1
ip link set tmp1 netns "$CNI_NETNS" name "$CNI_IFNAME"
ip link set lxc1 up
inside ip link set "$CNI_IFNAME" up
inside ip address add 10.1.2.77/32 dev "$CNI_IFNAME"
inside ip route add 10.1.2.254 dev "$CNI_IFNAME" scope link
inside ip route add default via 10.1.2.254
ip route add 10.1.2.77/32 dev lxc1
mac=$(inside ip -o link show "$CNI_IFNAME" | sed 's/.*ether \\([^ ]*\\).*/\\1/')
cat <<END
{"cniVersion":"1.0.0",
 "interfaces":[{"name":"$CNI_IFNAME","mac":"$mac","sandbox":"$CNI_NETNS"}],
 "ips":[{"interface":0,"address":"10.1.2.77/32","gateway":"10.1.2.254"}],
 "routes":[{"dst":"10.1.2.254/32"},{"dst":"0.0.0.0/0","gw":"10.1.2.254"}],
 "dns":{}}
END`,
  // Only the host's end is in the result, and addresses name no interface.
  "calico": `${onlyAdd("cali1")}
ip link add cali1 type veth peer name tmp1
ip link set tmp1 netns "$CNI_NETNS" name "$CNI_IFNAME"
ip link set cali1 up
inside ip link set "$CNI_IFNAME" up
inside ip address add 10.1.2.78/32 dev "$CNI_IFNAME"
inside ip route add 169.254.1.1 dev "$CNI_IFNAME" scope link
inside ip route add default via 169.254.1.1
ip route add 10.1.2.78/32 dev cali1
echo '{"cniVersion":"1.0.0","interfaces":[{"name":"cali1"}],
 "ips":[{"address":"10.1.2.78/32"}],"dns":{}}'`,
  // A device of the host becomes the container's, and goes back.
  "sriov": `set -e
${INSIDE}
stdin=$(cat)
case "$CNI_COMMAND" in
ADD) ;;
DEL)
  ip link show vf0 > /dev/null 2>&1 && exit 0
  inside ip link set "$CNI_IFNAME" down
  inside ip link set "$CNI_IFNAME" netns $$ name vf0
  exit 0 ;;
*) exit 0 ;;
esac
mac=$(ip -o link show vf0 | sed 's/.*ether \\([^ ]*\\).*/\\1/')
ip link set vf0 down
ip link set vf0 netns "$CNI_NETNS" name "$CNI_IFNAME"
inside ip address add 10.1.2.79/24 dev "$CNI_IFNAME"
inside ip link set "$CNI_IFNAME" up
cat <<END
{"cniVersion":"1.0.0",
 "interfaces":[{"name":"$CNI_IFNAME","mac":"$mac","sandbox":"$CNI_NETNS"}],
 "ips":[{"interface":0,"address":"10.1.2.79/24","gateway":"10.1.2.1"}],
 "dns":{}}
END`,
  // A chained plugin that changes nothing in the result.
  "istio-cni": `stdin=$(cat)
[ "$CNI_COMMAND" = ADD ] || exit 0
echo "$stdin" | sed 's/^.*"prevResult":\\(.*\\)}$/\\1/'`,
};

/** A chain: its types in the order of ADD, and what it needs. */
interface Row {
  /** Those in capitals are the other project's. */
  readonly types: string;
  /** Plugins of Go that fail CHECK in this chain, and why. */
  readonly goFailsCheck?: Readonly<Record<string, string>>;
}

/** The releases that the documentation lists. */
const NEWEST = `Go ${NEWEST_RELEASE.slice(1)}`;

/** Chains of ours and Go's. Each is also run with the owners exchanged. */
const WITH_GO: readonly Row[] = [
  { types: "ptp PORTMAP" },
  { types: "ptp FIREWALL" },
  { types: "ptp TUNING" },
  {
    types: "ptp PORTMAP bandwidth FIREWALL tuning",
    goFailsCheck: { "portmap of Go 1.1.1": "wants rules for IPv6 too" },
  },
  {
    types: "bridge PORTMAP firewall TUNING",
    goFailsCheck: { "portmap of Go 1.1.1": "wants rules for IPv6 too" },
  },
  {
    types: "bridge portmap FIREWALL tuning BANDWIDTH",
    goFailsCheck: { "portmap of Go 1.1.1": "wants rules for IPv6 too" },
  },
  { types: "macvlan TUNING" },
  {
    types: "host-device TUNING SBR",
    goFailsCheck: { "host-device": "does not find the route sbr has moved" },
  },
  { types: "tap TUNING" },
  { types: "ipvlan TUNING" },
  { types: "vlan TUNING" },
  { types: "dummy TUNING" },
  {
    types: "dummy VRF",
    goFailsCheck: { "dummy": "does not find the route vrf has moved" },
  },
];

/** Chains of ours and of other projects. */
const WITH_OTHERS: readonly Row[] = [
  { types: "CILIUM-CNI portmap firewall tuning" },
  { types: "CALICO portmap bandwidth firewall tuning" },
  { types: "SRIOV tuning sbr" },
  { types: "SRIOV vrf" },
  { types: "ptp ISTIO-CNI portmap bandwidth" },
  { types: "bridge portmap firewall tuning ISTIO-CNI" },
  { types: "macvlan ISTIO-CNI tuning" },
];

/** Reads a list of types; exchanges the owners if `other` comes first. */
function parseTypes(types: string, lower: Who, upper: Who): Link[] {
  return types.split(" ").map((type) => ({
    type: type.toLowerCase(),
    who: type === type.toLowerCase() ? lower : upper,
  }));
}

const needsTc = ignoreUnless(hasCommand("tc"), "needs tc");

/** Skips a chain on a host without the tools for the rules of its plugins. */
function needsTools(types: readonly string[]): Needs {
  const hasRules = ["ptp", "bridge", "portmap", "firewall"]
    .some((type) => types.includes(type));
  return hasRules ? allOf(needsTc, needsInetRules) : needsTc;
}

function formatChain(links: readonly Link[]): string {
  return links.map(({ who, type }) =>
    who === "ours" ? type : `${type} of ${nameOf(who)}`
  ).join(", ");
}

function testChain(
  links: readonly Link[],
  cniVersion: string,
  { goFailsCheck }: Row,
): void {
  const types = links.map(({ type }) => type);
  rootTest(
    `mixed chain: ${formatChain(links)}`,
    allOf(needsTools(types), needsLinks(...types)),
    () => live(links, cniVersion, goFailsCheck),
  );
}

/** The older release has the same protocol: its longest chains will do. */
function isRunWith({ types }: Row, release: string): boolean {
  return release === NEWEST || types.split(" ").length >= 4;
}

for (const peer of listPeers("mixed chains")) {
  for (const row of WITH_GO) {
    const { types } = row;
    if (!isRunWith(row, peer.name)) continue;
    const { cniVersion } = peer;
    testChain(parseTypes(types, "ours", peer), cniVersion, row);
    testChain(parseTypes(types, peer, "ours"), cniVersion, row);
  }
}

const scripts = new PluginDirectory();
for (const [type, script] of Object.entries(FOREIGN)) scripts.add(type, script);
globalThis.addEventListener("unload", () => scripts[Symbol.dispose]());

for (const row of WITH_OTHERS) {
  const others = {
    name: "others",
    directory: scripts.path,
    cniVersion: "1.0.0",
  };
  const links = parseTypes(row.types, "ours", others);
  testChain(links, others.cniVersion, row);
}
