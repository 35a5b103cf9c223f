/**
 * Measures how soon containers have their packets again with `cni daemon --repair`
 * after other programs removed rules, routes or sysctls: the figures in docs/daemon.md.
 *
 * `CNI_BIN=$PWD/dist/bin deno task deno run -A scripts/measure/repair.ts [COUNT [PATTERN [daemon]]]`,
 * as root. COUNT containers, 100 by default; PATTERN selects scenes, and `daemon` leaves
 * out `cni repair`. All of it happens in namespaces that end with this program.
 *
 * @module
 */

import * as libc from "../../ffi/libc.ts";
import { isSystemError } from "../../ffi/errno.ts";
import { Fd } from "../../ffi/file/fd.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import {
  encodeAddress,
  SOCKET_DOMAINS,
} from "../../ffi/socket/socket_address.ts";
import { Ip } from "../../net/ip.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { Firewalld } from "../../tests/_harness/firewalld.ts";
import { NodeDaemon } from "../../tests/_harness/node_daemon.ts";
import { ToolHost } from "../../tests/_harness/tool_host.ts";

/** `outside` answers only what comes from the host's own address. */
const SET_UP = `
ip link set lo up
ip netns add outside
ip -n outside link set lo up
ip link add out type veth peer name out netns outside
ip link set out up
ip -n outside link set out up
ip address add 192.0.2.1/24 dev out
ip -n outside address add 192.0.2.2/24 dev out`;
const HOST = Ip.parse("192.0.2.1"), OUTSIDE = Ip.parse("192.0.2.2");

/** Has systemd-networkd configure all veths, until it has taken them out of the bridge. */
const RUN_NETWORKD = `unshare --mount sh -ec '
  mount -t tmpfs none /run
  mount --bind /sys /sys; mount -o remount,bind,ro /sys
  mkdir -p /run/systemd/network /run/systemd/netif
  for name in links leases lldp; do mkdir /run/systemd/netif/$name; done
  chown -R systemd-network /run/systemd/netif
  printf "[Match]\\nName=veth*\\n[Network]\\nLinkLocalAddressing=no\\n" \
    > /run/systemd/network/50.network
  timeout 30 /lib/systemd/systemd-networkd 2>/dev/null & networkd=$!
  while ip -o link show master br0 | grep -q veth; do
    kill -0 $networkd
    sleep 0.02
  done
  kill $networkd; wait $networkd || true'`;

/** Debian's netavark, whose containers are beside in a scene of their own. */
const NETAVARK = Deno.env.get("NETAVARK");

/** Runs netavark for all its containers: `$1` as `podman network reload` does, else setup. */
const RUN_NETAVARK = `
mkdir -p /run/netavark
for n in $(seq $2); do
  [ -e /run/netns/n$n ] || ip netns add n$n
  sed "s/N/$n/g" > /run/netavark/$n.json <<END
{"container_id": "N0000000000000000000", "container_name": "nN",
 "networks": {"podman": {"static_ips": ["10.88.1.N"], "interface_name": "eth0"}},
 "port_mappings": [{"container_port": 80, "host_ip": "", "host_port": $((9000 + n)),
   "protocol": "tcp", "range": 1}],
 "network_info": {"podman": {"name": "podman", "driver": "bridge",
   "id": "2f259bab93aaaaa2542ba43ef33eb990d0999ee1b9924b557b7be53c0b7a1bb9",
   "network_interface": "podman0", "created": "2023-01-01T00:00:00Z",
   "subnets": [{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}],
   "ipv6_enabled": false, "internal": false, "dns_enabled": false,
   "ipam_options": {"driver": "host-local"}}}}
END
  netavark() { $0 -c /run/netavark -f /run/netavark/$n.json $1 /run/netns/n$n; }
  [ $1 = setup ] || netavark teardown
  netavark setup >/dev/null
done`;

/** What other programs do, and the scenes in which containers then lose packets. */
const LOSSES: readonly [name: string, scenes: RegExp, script: string][] = [
  ["nft flush ruleset", /^(?!.*firewalld)/, "nft flush ruleset"],
  [
    "iptables -F -t nat",
    /iptables(?!.*firewalld)/,
    "iptables -t nat -F",
  ],
  [
    "routes removed, as systemd-networkd does",
    /ptp(?!.*firewalld)/,
    "ip route flush root 10.1.0.0/16",
  ],
  [
    "systemd-networkd takes ports",
    /bridge(?!.*firewalld)/,
    RUN_NETWORKD,
  ],
  [
    "sysctl net.ipv4.ip_forward=0",
    /^(?!.*firewalld)/,
    "sysctl -q -w net.ipv4.ip_forward=0",
  ],
  [
    "sysctl forwarding=0 of the host's links to containers",
    /^(?!.*firewalld)/,
    "for one in /proc/sys/net/ipv4/conf/[vb][er]*; do echo 0 > $one/forwarding; done",
  ],
  [
    "sysctl rp_filter=1 everywhere, which loses no packet",
    /^(?!.*firewalld)/,
    "for one in /proc/sys/net/ipv4/conf/*; do echo 1 > $one/rp_filter; done",
  ],
];

const [text = "100", filter = "", part = "all"] = Deno.args;
const COUNT = Number(text);
const NUMBERS = Array.from({ length: COUNT }, (_, index) => index + 1);
/** A packet without an answer is lost after this time. */
const LOST_MS = 20;
/** After so long without a round, a daemon begins two without a rest. */
const REST_MS = 10_000;

/** Reports whether a server can be reached from a namespace, by a connection of its own. */
function canConnect(from: NetNs, address: Ip, port: number): boolean {
  return inNetns(from, () => {
    const type = 1 | 0o2000000; // SOCK_STREAM | SOCK_CLOEXEC
    using socket = new Fd(libc.socket(SOCKET_DOMAINS[address.family], type, 0));
    const value = new Uint8Array(16);
    new DataView(value.buffer).setBigUint64(8, BigInt(LOST_MS * 1000), true);
    // SOL_SOCKET, SO_SNDTIMEO
    libc.setSocketOptionBytes(socket.number, { level: 1, name: 21, value });
    try {
      libc.connect(socket.number, encodeAddress(address, port));
      return true;
    } catch (error) {
      if (!isSystemError(error)) throw error;
      return false;
    }
  });
}

/** Closes each connection. */
async function serve(listener: Deno.Listener): Promise<void> {
  for await (const connection of listener) connection.close();
}

/** A node with containers, and what its packets need. */
class Scene implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;
  readonly #outside: NetNs;
  readonly #containers: readonly NetNs[];
  readonly host: ToolHost;
  readonly hosts: TestHosts;
  readonly firewalld: Firewalld | undefined;
  readonly hasNetavark: boolean;

  private constructor(
    stack: AsyncDisposableStack,
    parts: Pick<Scene, "host" | "hosts" | "firewalld" | "hasNetavark">,
  ) {
    this.#stack = stack;
    this.host = parts.host;
    this.hosts = parts.hosts;
    this.firewalld = parts.firewalld;
    this.hasNetavark = parts.hasNetavark;
    // Until the closed servers have let go of their sockets.
    this.#stack.defer(() => new Promise((resolve) => setTimeout(resolve, 200)));
    const pid = this.host.enter[this.host.enter.indexOf("-t") + 1];
    const open = (name: string): NetNs => {
      const netns = NetNs.open(`/proc/${pid}/root/run/netns/${name}`);
      const listener = inNetns(
        netns,
        () => Deno.listen({ hostname: "0.0.0.0", port: 80 }),
      );
      this.#stack.defer(() => listener.close());
      serve(listener);
      return this.#stack.use(netns);
    };
    this.#outside = open("outside");
    this.#containers = NUMBERS.map((number) => open(`c${number}`));
  }

  static async start(name: string): Promise<Scene> {
    await using stack = new AsyncDisposableStack();
    const host = stack.use(await ToolHost.create());
    await host.sh(SET_UP);
    const hosts = stack.use(TestHosts.create());
    const [type = "", backend = "", other] = name.split(" ");
    let firewalld: Firewalld | undefined;
    if (other === "firewalld") {
      const { enter } = host, { directory } = hosts;
      firewalld = stack.use(await Firewalld.start({ enter, directory }));
      Object.assign(host.env, firewalld.env);
    }
    const subnet = host.hostLocal("10.1.0.0/16");
    const link = type === "bridge"
      ? { type, bridge: "br0", isDefaultGateway: true, ipam: subnet }
      : { type, ipam: { ...subnet, routes: [{ dst: "0.0.0.0/0" }] } };
    host.addNetwork("pods", [
      { ...link, ipMasq: true, ipMasqBackend: backend },
      { type: "portmap", backend, capabilities: { portMappings: true } },
      { type: "firewall", backend: firewalld ? "firewalld" : backend },
    ]);
    await host.sh(`
      seq ${COUNT} | xargs -P2 -I{} sh -ec '
        ip netns add c{}
        CAP_ARGS="{\\"portMappings\\":[{\\"hostPort\\":$((8000 + {})),\\"containerPort\\":80,\\"protocol\\":\\"tcp\\"}]}" \
          ${host.command("add", "pods", "c{}").join(" ")} >/dev/null 2>&1'`);
    const hasNetavark = other === "netavark";
    return new Scene(stack.move(), { host, hosts, firewalld, hasNetavark });
  }

  /** Waits until packets of all containers flow, both ways. */
  async flows(): Promise<void> {
    for (const [index, netns] of this.#containers.entries()) {
      while (
        !canConnect(netns, OUTSIDE, 80) ||
        !canConnect(this.#outside, HOST, 8001 + index)
      ) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    // The servers take what has come.
    await new Promise((resolve) => setTimeout(resolve, 5));
  }

  /** Runs netavark for its containers, if there are any. */
  async netavark(command: "setup" | "reload"): Promise<void> {
    if (!this.hasNetavark) return;
    const line = ["sh", "-ec", RUN_NETAVARK, NETAVARK ?? "", command, text];
    const { code, stderr } = await this.host.run(line);
    if (code !== 0) throw new Error(stderr);
  }

  /** Tells which packets of the first container are lost. */
  lost(): string {
    const [first = this.#outside] = this.#containers;
    const isOut = !canConnect(first, OUTSIDE, 80);
    const isIn = !canConnect(this.#outside, HOST, 8001);
    return [isOut ? "out" : "", isIn ? "in" : ""].join(" ").trim() || "none";
  }

  /** Lists rules, routes, addresses, ports and sources. */
  async state(): Promise<string[]> {
    const listed = await this.host.sh(
      "nft -s list ruleset 2>/dev/null; ip route; ip -o -4 address; " +
        "ip -o link show type veth | sed 's/state.*//'; sysctl net.ipv4.ip_forward",
    );
    const lines = listed.replaceAll(/ comment "[^"]*"/g, "")
      .replaceAll(/[^\s]*valid_lft.*/g, "").split("\n");
    return [...lines, ...this.firewalld?.sources() ?? []].toSorted();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

/** Describes what is there that was not, and the opposite. */
function compare(before: readonly string[], after: readonly string[]): string {
  const more = after.length - before.length;
  if (more !== 0) return `${more} more lines`;
  const changed = after.filter((line, index) => line !== before[index]);
  return changed.length === 0 ? "same" : `${changed.length} changed lines`;
}

/** The exit code of `cni`, and how long it took. */
async function time(
  host: ToolHost,
  line: string,
): Promise<[code: number, ms: number]> {
  const startMs = performance.now();
  const { code } = await host.cni(line);
  return [code, performance.now() - startMs];
}

/** The processor time of a process and of its children that have ended, in ms. */
function readCpuMs(pid: number): number {
  const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ")[1];
  // utime, stime, cutime, cstime, in ticks of 10 ms
  return fields?.split(" ").slice(11, 15)
    .reduce((sum, ticks) => sum + Number(ticks) * 10, 0) ?? 0;
}

function print(...cells: readonly unknown[]): void {
  const load = Deno.loadavg()[0]?.toFixed(1);
  console.log(`| ${[...cells, load].join(" | ")} |`);
}

/** Removes things, and has `cni repair` restore them. */
async function repairByHand(
  scene: Scene,
  run: () => Promise<void>,
  before: readonly string[],
): Promise<string> {
  const { host } = scene;
  await run();
  const lost = scene.lost();
  const [missing] = await time(host, "repair --all --dry-run");
  const [code, ms] = await time(host, "repair --all");
  await scene.flows();
  const [none] = await time(host, "repair --all --dry-run");
  await scene.netavark("reload");
  const same = compare(before, await scene.state());
  return [lost, `${missing}, ${code}, ${none}`, `${ms.toFixed()} ms`, same]
    .join(" | ");
}

async function measure(name: string): Promise<void> {
  await using scene = await Scene.start(name);
  const { host, hosts, firewalld } = scene;
  await scene.flows();
  await scene.netavark("setup");
  const before = await scene.state();
  const losses: [string, () => Promise<void>][] = firewalld === undefined
    ? LOSSES.filter(([, scenes]) => scenes.test(name)).map((
      [name, , script],
    ) => [name, async () => void await host.sh(script)])
    : [
      ...["--reload", "--complete-reload"].map((
        flag,
      ): [string, () => Promise<void>] => [
        `firewall-cmd ${flag}`,
        () => Promise.resolve(void firewalld.command(flag)),
      ]),
      ["firewalld restarts", async () => {
        await firewalld.stop();
        await firewalld.start();
      }],
    ];
  const byHand = new Map<string, string>();
  for (const [loss, run] of losses) {
    if (part === "all") {
      byHand.set(loss, await repairByHand(scene, run, before));
    }
  }
  await using daemon = await NodeDaemon.start(hosts, {
    wrapper: host.enter,
    socketDir: "/run/cni",
    args: ["--repair"],
    env: { CNI_PATH: host.path, ...firewalld?.env },
  });
  const rounds = async (): Promise<{ rounds: number; lastAt?: string }> =>
    JSON.parse((await daemon.ask("/state")).body).repairs;
  for (const [loss, run] of losses) {
    await eventually("it is ready for a round", async () => {
      const { lastAt } = await rounds();
      return lastAt !== undefined &&
        Date.now() - Date.parse(lastAt) > REST_MS;
    });
    const logged = daemon.log.length, cpuMs = readCpuMs(daemon.pid);
    const startMs = performance.now();
    await run();
    const goneMs = performance.now();
    await scene.flows();
    const endMs = performance.now();
    const usedMs = readCpuMs(daemon.pid) - cpuMs;
    const [none] = await time(host, "repair --all --dry-run");
    const reloadAtMs = performance.now();
    await scene.netavark("reload");
    const reloadMs = performance.now() - reloadAtMs;
    const same = compare(before, await scene.state());
    const log = daemon.log.slice(logged).split("\n")
      .filter((line) => line.includes("Repaired"))
      .map((line) => / attachments=(\d+) .* ms=(\d+)/.exec(line))
      .map((found) => `${found?.[1]} in ${found?.[2]} ms`).join(", ");
    print(
      ...[name, loss, `${(goneMs - startMs).toFixed()} ms`],
      ...[`${(endMs - goneMs).toFixed()} ms`, `${usedMs} ms`, log],
      ...[`${none}`, same],
      scene.hasNetavark ? `${reloadMs.toFixed()} ms` : "",
      byHand.get(loss),
    );
  }
}

if (import.meta.main) {
  print(
    ...[
      "containers",
      "loss",
      "loss took",
      "packets flow after",
      "CPU",
      "rounds",
    ],
    ...[
      "missing after",
      "state",
      "network reload",
      "packets lost",
      "exit codes by hand",
    ],
    ...["by hand", "state", "load"],
  );
  for (const type of ["ptp", "bridge"]) {
    for (const backend of ["nftables", "iptables"]) {
      const others = ["", " firewalld", ...NETAVARK ? [" netavark"] : []];
      for (const other of others) {
        const name = `${type} ${backend}${other}`;
        if (new RegExp(filter).test(name)) {
          try {
            await measure(name);
          } catch (error) {
            const { error: last, suppressed } = error as SuppressedError;
            console.error(name, error, last, suppressed);
            throw error;
          }
        }
      }
    }
  }
}
