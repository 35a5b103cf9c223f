/**
 * A temporary node whose containers reach several destinations: each other,
 * services on the node's neighbour and beyond it, and a port of the host.
 *
 * @module
 */

import { inNetns, NetNs } from "../../ffi/netns.ts";
import { DoctorScene } from "../../cli/doctor/testing/scene.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { needsInetRules, needsRuleTools } from "../_harness/rules.ts";

/** What such a node needs. */
export const NEEDS: Needs = allOf(
  needsRuleTools,
  needsInetRules,
  ignoreUnless(
    ["perl", "ping", "tc", "bridge"].every(hasCommand),
    "needs perl, ping, tc and bridge",
  ),
);

/** Namespaces from which packets are sent. */
export type Place = "node" | "web" | "db" | "cache" | "shop" | "router";

/** Servers beyond the node's router: reached by its default routes only. */
export const FAR = "203.0.113.80", FAR6 = "2001:db8:80::80";
/** The node's router, and the node for it. */
export const ROUTER = "192.0.2.2", NODE = "192.0.2.1";
/** Addresses of containers. */
export const WEB = "10.1.0.2", DB = "10.2.0.2", CACHE = "10.2.0.3";
/** The port of the host that leads to `shop`. */
export const HOST_PORT = 8080;

const SERVED: readonly Place[] = [
  "node",
  "web",
  "db",
  "cache",
  "shop",
  "router",
];

/** The node's port; all other places serve port 80. */
export const NODE_PORT = 8000;
const PORTS: Partial<Record<Place, number>> = { node: NODE_PORT };

/** Answers each question of DNS with its own header, and the bit of answers. */
const NAME_SERVER = "use IO::Socket::INET; $s=IO::Socket::INET->new(" +
  'LocalAddr=>"0.0.0.0",LocalPort=>53,Proto=>"udp") or die; $|=1; ' +
  'print "ready\\n"; while($s->recv($b,512)){substr($b,2,1)="\\x81"; ' +
  "$s->send($b)}";

/** The port of a server that answers once it has received this much. */
export const SINK_PORT = 9000, SINK_BYTES = 65_536;
const SINK = "use IO::Socket::INET; $l=IO::Socket::INET->new(" +
  `LocalPort=>${SINK_PORT},Listen=>9,ReuseAddr=>1) or die; $|=1; ` +
  'print "ready\\n"; $SIG{CHLD}="IGNORE";while($c=$l->accept){next if fork;alarm 9;$n=0;' +
  `while($n<${SINK_BYTES}){$r=sysread($c,$b,${SINK_BYTES});last unless $r;$n+=$r}` +
  `syswrite $c,"ok" if $n>=${SINK_BYTES};exit}`;

/** Prints what a namespace has, without counters and timers. */
const STOCK = "nft -s list ruleset; ip -o link | sed 's/ qlen.*//'; " +
  "ip -o addr | sed 's/valid_lft.*//; s/ brd [0-9.]*//'; ip rule; ip -6 rule; " +
  "ip route show table all | sed 's/ proto kernel//'; ip -6 route show table all | sed 's/expires.*//'; " +
  "ip neigh show nud permanent";
const NODE_STOCK = `${STOCK}; ip xfrm policy; tc qdisc; ` +
  "bridge -d link; bridge fdb show | grep -v '33:33\\|01:00' | grep 'permanent\\|static'; " +
  "iptables-legacy-save | grep -v '^#\\|^:\\|^\\*\\|COMMIT' || true";

/** iptables leaves its chains and tables. */
const EMPTY_CHAINS = /^\tchain \S+ \{\n\t\ttype .*policy accept;\n\t\}\n\n?/gm;
const EMPTY_TABLES = /^table \S+ \S+ \{\n\}\n/gm;
/** Link-local addresses come by themselves. */
const SETTLES = /fe80|ff00::|anycast|^# Warning|^$/;

/**
 * A node with three networks. `web` is masqueraded by nftables and has IPv6; `db`
 * and `cache` are behind the same bridge and not masqueraded; `shop` is masqueraded
 * by iptables, and has a port of the host.
 */
export class FaultNode implements AsyncDisposable {
  readonly scene: DoctorScene;
  readonly #places: ReadonlyMap<Place, NetNs>;
  readonly #variables: string;
  readonly #stack = new AsyncDisposableStack();

  private constructor(
    scene: DoctorScene,
    places: ReadonlyMap<Place, NetNs>,
  ) {
    this.scene = scene;
    this.#places = places;
    this.#variables = [...places].map(([place, netns]) => {
      const name = place.toUpperCase();
      const path = `NS_${name}=${netns.path}`;
      const link = findLink(netns);
      if (place === "node" || place === "router" || link === undefined) {
        return path;
      }
      const end = scene.ip(`-o link show`).split("\n")
        .map((line) => /^(\d+): ([^:@]+)/.exec(line))
        .find((found) => Number(found?.[1]) === link.peer)?.[2];
      return `${path} ${name}=${end} MAC_${name}=${link.mac}`;
    }).join("\n");
  }

  /** Creates a node on which nothing is wrong. */
  static async create(): Promise<FaultNode> {
    const scene = await DoctorScene.create();
    const { hosts, outside } = scene;
    const places = new Map<Place, NetNs>([
      ["node", hosts.host],
      ["web", hosts.sandbox],
      ["db", scene.other],
      ["cache", hosts.addNetns()],
      ["shop", hosts.addNetns()],
      ["router", outside],
    ]);
    scene.sh(
      `ip addr add ${FAR}/32 dev lo; ip addr add ${FAR6}/128 dev lo nodad; ` +
        "ip route add 10.2.0.0/24 via 192.0.2.1; " +
        "sysctl -qw net.ipv4.ip_forward=1",
      outside,
    );
    scene.writeNetwork("25-shop", [{
      type: "ptp",
      ipMasq: true,
      ipMasqBackend: "iptables",
      ipam: {
        ...hosts.hostLocal("10.3.0.0/28"),
        routes: [{ dst: "0.0.0.0/0" }],
      },
    }, {
      type: "portmap",
      backend: "iptables",
      capabilities: { portMappings: true },
    }]);
    const place = (name: Place): NetNs => places.get(name) ?? hosts.host;
    await scene.attach("20-lan", place("cache"), "cacecacecacecace", "cache");
    await scene.attach("25-shop", place("shop"), "5408540854085408", "shop", {
      capabilityArgs: {
        portMappings: [
          { hostPort: HOST_PORT, containerPort: 80, protocol: "tcp" },
        ],
      },
    });
    const node = new FaultNode(scene, places);
    await node.#serve();
    return node;
  }

  /** Has a server of TCP in each namespace, and a name server. */
  async #serve(): Promise<void> {
    for (const place of SERVED) {
      const listener = inNetns(
        this.at(place),
        () => Deno.listen({ hostname: "::", port: PORTS[place] ?? 80 }),
      );
      const accepting = accept(listener);
      this.#stack.defer(async () => {
        listener.close();
        await accepting;
      });
    }
    await this.#start("router", NAME_SERVER);
    for (const place of ["router", "db"] as const) {
      await this.#start(place, SINK);
    }
  }

  /** Starts a program of perl that says when it is ready. */
  async #start(place: Place, script: string): Promise<void> {
    const args = ["-e", script];
    const server = inNetns(
      this.at(place),
      () =>
        new Deno.Command("perl", { args, stdin: "null", stdout: "piped" })
          .spawn(),
    );
    const reader = server.stdout.getReader();
    await reader.read();
    this.#stack.defer(async () => {
      server.kill("SIGKILL");
      await reader.cancel();
      await server.status;
    });
  }

  /** Returns the namespace of a place. */
  at(place: Place): NetNs {
    const netns = this.#places.get(place);
    if (netns === undefined) throw new Error(`There is no "${place}"`);
    return netns;
  }

  /**
   * Runs a shell script. `$DB` is the host's end of `db`, `$MAC_DB` its MAC, and
   * `$NS_DB` its namespace; the same for the other containers.
   *
   * @throws {Error} If a command fails
   */
  sh(script: string, place: Place = "node"): string {
    return this.scene.sh(
      `${this.#variables}\n${script}`,
      this.at(place),
    );
  }

  /** Describes the state that faults change, to compare it after the undo. */
  stock(): string[] {
    return [...this.#places.keys()].flatMap((place) => {
      const text = this.sh(place === "node" ? NODE_STOCK : STOCK, place);
      return text.replace(EMPTY_CHAINS, "").replace(EMPTY_TABLES, "")
        .split("\n").filter((line) => !SETTLES.test(line)).sort()
        .map((line) => `${place} ${line}`);
    });
  }

  /** Stops the servers, and removes everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
    this.scene[Symbol.dispose]();
  }
}

/** Closes each connection that is made. */
async function accept(listener: Deno.Listener): Promise<void> {
  for await (const connection of listener) connection.close();
}

/** Returns what a container's interface is connected with. */
function findLink(netns: NetNs): { mac: string; peer: number } | undefined {
  const text = inNetns(
    netns,
    () =>
      new Deno.Command("ip", { args: ["-o", "link", "show", "eth0"] })
        .outputSync(),
  );
  const [, peer, mac] = /eth0@if(\d+):.*link\/ether (\S+)/
    .exec(new TextDecoder().decode(text.stdout).replace(/\n/g, " ")) ?? [];
  return peer === undefined || mac === undefined
    ? undefined
    : { mac, peer: Number(peer) };
}
