/**
 * Nodes with pods of other plugins: recorded in tests/golden/upgrade, and made
 * anew where those plugins are installed.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { BIN } from "../_harness/executables.ts";
import { ToolHost } from "../_harness/tool_host.ts";

/** The names of both pods' namespaces, and their containers' IDs. */
export const PODS: Readonly<Record<"one" | "two", string>> = {
  one: "1".repeat(64),
  two: "2".repeat(64),
};
const NAMES = Object.keys(PODS) as (keyof typeof PODS)[];

/** A node as it was found. */
export interface Recording {
  /** With both pods. */
  readonly attached: NodeState;
  /** After DEL of both by the plugins that attached them. */
  readonly detached: NodeState;
  /** After DEL by them of both pods that our plugins had attached. */
  readonly returned?: NodeState;
}

/** A network, and whose plugins can attach pods to it. */
export interface UpgradeRow {
  readonly plugins: readonly Readonly<Record<string, unknown>>[];
  /** Names of peers that have all of it. */
  readonly madeBy: readonly string[];
}

const RANGES = {
  type: "host-local",
  ranges: [
    [{ subnet: "10.1.2.0/29" }, { subnet: "10.1.3.0/29" }],
    [{ subnet: "2001:db8:1::/64" }],
  ],
  routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
};

const ONE_RANGE = { type: "host-local", subnet: "10.1.4.0/24" };

const BRIDGE = { type: "bridge", bridge: "cni0", isGateway: true };

const LIMITS = {
  ingressRate: 1_000_000,
  ingressBurst: 1_000_000,
  egressRate: 1_000_000,
  egressBurst: 1_000_000,
};

/** The oldest and the newest release of Go, Go's multus, and our own first one. */
export const OLD = "Go 1.1.1", NEW = "Go 1.10.0", FIRST = "0.1.0";

/** The networks of the pods. */
export const ROWS: Readonly<Record<string, UpgradeRow>> = {
  iptables: {
    plugins: [
      {
        ...BRIDGE,
        ipMasq: true,
        ipMasqBackend: "iptables",
        hairpinMode: true,
        macspoofchk: true,
        ipam: RANGES,
      },
      {
        type: "portmap",
        backend: "iptables",
        capabilities: { portMappings: true },
      },
      { type: "firewall", backend: "iptables" },
      { type: "bandwidth", ...LIMITS },
      {
        type: "tuning",
        mtu: 1400,
        sysctl: { "net.ipv4.conf.eth0.log_martians": "1" },
      },
    ],
    madeBy: [OLD, NEW, FIRST],
  },
  nftables: {
    plugins: [
      { ...BRIDGE, ipMasq: true, ipMasqBackend: "nftables", ipam: RANGES },
      {
        type: "portmap",
        backend: "nftables",
        capabilities: { portMappings: true },
      },
    ],
    madeBy: [NEW, FIRST],
  },
  "own tables": {
    plugins: [
      { type: "ptp", ipMasq: true, ipMasqBackend: "nftables", ipam: ONE_RANGE },
      {
        type: "portmap",
        backend: "nftables",
        capabilities: { portMappings: true },
      },
      { type: "firewall", backend: "nftables" },
    ],
    madeBy: [FIRST],
  },
  multus: {
    plugins: [{
      type: "multus",
      binDir: "/run/bin",
      delegates: [{
        cniVersion: "1.0.0",
        name: "inner",
        plugins: [{
          type: "ptp",
          ipMasq: true,
          ipMasqBackend: "iptables",
          ipam: ONE_RANGE,
        }],
      }],
    }],
    madeBy: [NEW, FIRST],
  },
};

/** A node with two namespaces, in which one set of plugins is installed. */
export class UpgradeNode implements AsyncDisposable {
  /** The node. */
  readonly host: ToolHost;
  readonly #row: UpgradeRow;

  private constructor(host: ToolHost, row: UpgradeRow) {
    this.host = host;
    this.#row = row;
  }

  /** Creates a node without pods, with our plugins. */
  static async create(
    row: UpgradeRow = { plugins: [], madeBy: [] },
  ): Promise<UpgradeNode> {
    const host = await ToolHost.create();
    const node = new UpgradeNode(host, row);
    host.env["CNI_PATH"] = "/run/bin";
    node.configure("1.0.0");
    // Go waits for the detection of duplicate addresses.
    await sh(
      host,
      `quiet() { "$@" sysctl -qw net.ipv6.conf.default.accept_dad=0; }
       mkdir -p /run/bin; ip link set lo up; quiet
       for pod in ${NAMES.join(" ")}; do
         ip netns add $pod; ip -n $pod link set lo up; quiet ip netns exec $pod
       done`,
    );
    await node.install(BIN);
    return node;
  }

  /** Replaces the plugins, as an upgrade does. Later directories come first. */
  async install(...directories: readonly string[]): Promise<void> {
    await sh(
      this.host,
      'rm -f /run/bin/*; for f; do ln -sf "$f"/* /run/bin; done',
      ...directories,
    );
  }

  /** Writes the network's configuration. */
  configure(cniVersion: string): void {
    const { plugins } = this.#row;
    this.host.addNetwork("pods", [...plugins], { cniVersion });
  }

  /** Runs a command of the tool for a pod. */
  async run(command: string, pod: keyof typeof PODS): Promise<void> {
    const portMappings = [
      { hostPort: 8080 + NAMES.indexOf(pod), containerPort: 80 },
      { hostPort: 5353 + NAMES.indexOf(pod), containerPort: 53 },
    ].map((port, at) => ({ ...port, protocol: at === 0 ? "tcp" : "udp" }));
    this.host.env["CAP_ARGS"] = JSON.stringify({ portMappings });
    await this.succeed(`${command} pods ${pod} --container-id ${PODS[pod]}`);
  }

  /** Runs `cni`, which must succeed. */
  async succeed(line: string): Promise<void> {
    const { code, stdout, stderr } = await this.host.cni(line);
    assertEquals(code, 0, line + stdout + stderr);
  }

  /** Removes a pod's namespace, and waits until its links are gone. */
  async lose(pod: keyof typeof PODS): Promise<void> {
    await sh(
      this.host,
      `count() { ip -o link show type veth | wc -l; }
       before=$(count); ip netns delete ${pod}
       until [ $(count) -lt $before ]; do sleep 0.02; done`,
    );
  }

  /** Puts an empty namespace in its place. */
  async replace(pod: keyof typeof PODS): Promise<void> {
    await sh(this.host, `ip netns add ${pod}`);
  }

  async state(): Promise<NodeState> {
    return await readState(this.host, NAMES);
  }

  /** Attaches and detaches both pods, and returns what there was. */
  async record(): Promise<Recording> {
    for (const pod of NAMES) await this.run("add", pod);
    const attached = await this.state();
    for (const pod of NAMES) await this.run("del", pod);
    return { attached, detached: await this.state() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

/** Where the recording of a row is. */
export function pathOf(row: string, maker: string): URL {
  const name = `${maker} ${row}.json`.toLowerCase().replaceAll(" ", "-");
  return new URL(`../golden/upgrade/${name}`, import.meta.url);
}

/** The state of a node and its pods. */
export interface NodeState {
  /** Of `ip`, `tc` and `sysctl`, in an order in which they can be run. */
  readonly commands: readonly string[];
  /** As `iptables-save` prints it, without counters. */
  readonly iptables: readonly string[];
  readonly ip6tables: readonly string[];
  /** Tables that iptables does not own, as nft prints them. */
  readonly nftables: readonly string[];
  /** Contents by path. */
  readonly files: Readonly<Record<string, string>>;
}

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
type Json = any;

/** Runs a shell script on the node, which must succeed. */
export async function sh(
  host: ToolHost,
  script: string,
  ...args: string[]
): Promise<string> {
  const command = ["sh", "-ec", script, "sh", ...args];
  const { code, stdout, stderr } = await host.run(command);
  assertEquals(code, 0, script + stdout + stderr);
  return stdout;
}

/** Settings that plugins change, of the host and of pods: below /proc/sys/net. */
const SYSCTLS =
  "ipv4/ip_forward ipv6/conf/all/forwarding ipv4/conf/*/route_localnet";
const POD_SYSCTLS = "ipv4/conf/eth0/log_martians";

const LOOK = `
for pod in "" "$@"; do
  in=\${pod:+"-n $pod"}
  ip $in -j -d address; ip $in -4 -j route; ip $in -6 -j route
done
tc -j qdisc
for dev in $(ip -o link show type veth | sed 's/^[0-9]*: //; s/[@:].*//'); do
  tc -j filter show dev "$dev" parent ffff: 2>/dev/null | sed "s/^/$dev /"
done
echo === sysctls
sh -c "cd /proc/sys/net; grep -s '' ${SYSCTLS}" |
  grep -v -e ':0$' -e '/all/route' -e '/default/' |
  sed 's|^|sysctl -qw net/|; s/:/=/'
for pod; do
  ip netns exec $pod sh -c "cd /proc/sys/net; grep -s -H '' ${POD_SYSCTLS}" |
    grep -v ':0$' | sed "s|^|ip netns exec $pod sysctl -qw net/|; s/:/=/" || true
done
echo === iptables; iptables-save
echo === ip6tables; ip6tables-save
echo === nftables
nft -j list tables | grep -o '"family": "[^"]*", "name": "[^"]*"' | tr -d '",' |
  while read -r _ family _ name; do
    case "$family $name" in
    ip*\\ filter | ip*\\ nat | ip*\\ mangle | ip*\\ raw | ip*\\ security) ;;
    *) nft -s list table "$family" "$name" ;;
    esac
  done
echo === files
find /var/lib/cni /run/cni -type f 2>/dev/null | sort | while read -r path; do
  echo "$path $(base64 -w0 "$path")"
done`;

/** Reads the state of a node with pods of the given names. */
export async function readState(
  host: ToolHost,
  pods: readonly string[],
): Promise<NodeState> {
  const [links = "", sysctls = "", iptables, ip6tables, nftables, files = ""] =
    (await sh(host, LOOK, ...pods)).split(/^=== \w+\n/m);
  return {
    commands: [
      ...listCommands(links.trim().split("\n"), pods),
      ...sysctls.split("\n").filter((line) => line !== ""),
    ],
    iptables: listRules(iptables),
    ip6tables: listRules(ip6tables),
    nftables: (nftables ?? "").split("\n").filter((line) => line.trim() !== ""),
    files: Object.fromEntries(
      files.split("\n").filter((line) => line !== "").map((line) => {
        const [path = "", text = ""] = line.split(" ");
        const bytes = Uint8Array.fromBase64(text);
        return [path, new TextDecoder().decode(bytes)];
      }).filter(([path]) => !/\/locks\/\.\w+$/.test(path ?? "")),
    ),
  };
}

/** Lists rules, and chains that are not the kernel's. */
function listRules(saved = ""): string[] {
  const lines = saved.split("\n").filter((line) => /^[*:-]|^COMMIT/.test(line))
    .map((line) => line.replace(/ \[\d+:\d+\]$/, ""));
  // A table without rules appears once somebody has looked for one.
  return lines.join("\n").split(/(?<=^COMMIT)\n/m)
    .filter((table) => /^(-|:.* -$)/m.test(table))
    .flatMap((table) => table.split("\n"));
}

function listCommands(
  lines: readonly string[],
  pods: readonly string[],
): string[] {
  const [qdiscs = "[]", ...filters] = lines.slice(3 * (pods.length + 1));
  const spaces = ["", ...pods].map((pod, at) => {
    const documents = lines.slice(3 * at, 3 * at + 3);
    const [links, ...routes] = documents.map((text) => JSON.parse(text));
    return {
      prefix: pod === "" ? "ip" : `ip -n ${pod}`,
      links: (links as Json[]).filter(({ ifname }) => ifname !== "lo"),
      routes: routes.flat() as Json[],
      pod,
    };
  });
  const [host, ...inside] = spaces;
  if (host === undefined) return [];
  const made = host.links.flatMap((link) => describeLink(link, inside));
  const settings = spaces.flatMap(({ prefix, links, routes }) => [
    ...links.flatMap((link) => describeSettings(prefix, link)),
    // A gateway's own route comes before those that use it.
    ...[false, true].flatMap((hasGateway) =>
      routes.filter(isAdded)
        .filter(({ gateway }) => (gateway !== undefined) === hasGateway)
        .map((route) => describeRoute(prefix, route))
    ),
  ]);
  const kinds = ["tbf", "ingress"];
  const limits = (JSON.parse(qdiscs) as Json[])
    .filter(({ kind }) => kinds.includes(kind)).map(describeQdisc);
  return [...made, ...settings, ...limits, ...filters.flatMap(describeFilter)];
}

/** Bridges come first: `ip` lists them before their ports. */
function describeLink(
  { ifname, address, mtu, link_index, ifindex, linkinfo }: Json,
  inside: readonly { readonly links: readonly Json[]; readonly pod: string }[],
): string[] {
  const own = `ip link add ${ifname} address ${address} mtu ${mtu}`;
  if (linkinfo.info_kind !== "veth") {
    return [`${own} type ${linkinfo.info_kind}`];
  }
  return inside.flatMap(({ links, pod }) =>
    links.filter((peer) =>
      peer.link_index === ifindex && peer.ifindex === link_index
    ).map((peer) =>
      `${own} type veth peer name ${peer.ifname} netns ${pod} ` +
      `address ${peer.address} mtu ${peer.mtu}`
    )
  );
}

function describeSettings(prefix: string, link: Json): string[] {
  const set = `${prefix} link set ${link.ifname}`;
  const { master, flags, addr_info, linkinfo, ifname, ifalias } = link;
  const hairpin = linkinfo.info_slave_data?.hairpin ? " hairpin on" : "";
  return [
    ...ifalias === undefined ? [] : [`${set} alias '${ifalias}'`],
    ...master === undefined ? [] : [`${set} master ${master}`],
    ...hairpin === "" ? [] : [`${set} type bridge_slave${hairpin}`],
    ...flags.includes("UP") ? [`${set} up`] : [],
    ...addr_info.filter(({ scope }: Json) => scope === "global").map(
      ({ local, prefixlen, broadcast, family }: Json) => {
        const wide = broadcast === undefined ? "" : ` broadcast ${broadcast}`;
        const nodad = family === "inet6" ? " nodad" : "";
        const address = `${local}/${prefixlen}${wide}`;
        return `${prefix} address add ${address} dev ${ifname}${nodad}`;
      },
    ),
  ];
}

function isAdded({ protocol, dst }: Json): boolean {
  return protocol !== "kernel" && !dst.startsWith("fe80:");
}

function describeRoute(prefix: string, route: Json): string {
  const { dst, gateway, dev, scope, prefsrc } = route;
  const family = `${dst}${gateway ?? ""}`.includes(":") ? " -6" : "";
  return [
    `${prefix}${family} route replace ${dst}`,
    gateway && `via ${gateway}`,
    `dev ${dev}`,
    scope && `scope ${scope}`,
    prefsrc && `src ${prefsrc}`,
  ].filter(Boolean).join(" ");
}

function describeQdisc({ kind, handle, dev, options }: Json): string {
  if (kind === "ingress") return `tc qdisc add dev ${dev} ingress`;
  const { rate, burst, lat } = options;
  // The kernel has a number of bytes, and iproute2 loses some in between.
  const latency = `${Math.ceil(lat / 1000)}ms`;
  const limit = `rate ${rate * 8}bit burst ${burst}b latency ${latency}`;
  return `tc qdisc add dev ${dev} root handle ${handle} tbf ${limit}`;
}

/** Traffic that goes on to an IFB; those of Go have the action twice. */
function describeFilter(line: string): string[] {
  const [, dev, text = "[]"] = /^(\S+) (.*)$/.exec(line) ?? [];
  return (JSON.parse(text) as Json[]).flatMap(({ options, pref }) => {
    const actions: Json[] = options?.actions ?? [];
    if (actions.length === 0) return [];
    const all = "protocol all u32 match u32 0 0 flowid 1:1";
    return [[
      `tc filter add dev ${dev} parent ffff: pref ${pref} ${all}`,
      ...actions.map(({ to_dev }) =>
        `action mirred egress redirect dev ${to_dev}`
      ),
    ].join(" ")];
  });
}

/** Makes a state on a node that has the pods' namespaces, and nothing else. */
export async function makeState(
  host: ToolHost,
  { commands, iptables, ip6tables, nftables, files }: NodeState,
): Promise<void> {
  const write = Object.entries(files).map(([path, text]) => {
    const bytes = new TextEncoder().encode(text).toBase64();
    return `mkdir -p "$(dirname '${path}')"; echo ${bytes} | base64 -d > '${path}'`;
  });
  const feed = (program: string, lines: readonly string[]): string =>
    lines.length === 0 ? "" : `${program} << 'END'\n${lines.join("\n")}\nEND\n`;
  await sh(
    host,
    [
      ...commands,
      feed("iptables-restore", iptables),
      feed("ip6tables-restore", ip6tables),
      feed("nft -f -", nftables),
      ...write,
    ].join("\n"),
  );
}

/** Returns a state without names and MACs that are random. */
export function comparable(state: NodeState): unknown {
  const text = JSON.stringify({
    ...state,
    commands: [],
    files: Object.entries(state.files),
  });
  const hide = (text: string): string =>
    text.replace(/\bveth[0-9a-f]{8,}\b/g, "VETH")
      .replace(/\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b/g, "MAC");
  return {
    ...JSON.parse(hide(text)),
    commands: state.commands.map(hide).sort(),
  };
}
