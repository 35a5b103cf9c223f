/**
 * A busy node with a daemon: pods come and go, 16 at a time, on networks of
 * several kinds, while callers and the daemon are killed, and a plugin of the
 * chains fails or is missing.
 *
 * The suite runs 80 attachments. `CNI_SOAK=10000` runs so many,
 * `CNI_SOAK_MINUTES=10` runs so long, and both print figures. In a long run the
 * daemon is also stopped for up to 6 s, so that callers do its work. The daemon
 * is killed in the first half only. In a long run its memory is then compared
 * with that after its first 1000 attachments: until then, V8 compiles what is
 * used often, and the heap gets as large as 16 concurrent calls need.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { pause } from "../base/deadline.ts";
import { exists, ifPossible } from "../base/files/io.ts";
import { FileLock } from "../base/files/lock.ts";
import { SILENCE_MS } from "../daemon/wire/call_format.ts";
import type { NetNs } from "../ffi/netns.ts";
import { stableName } from "../plugins/parts/owner/stable_name.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import type { ExecOutput } from "../testing/exec_in.ts";
import { ipJson, runIn, snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { createRandom, eachAtOnce } from "./_harness/repetition.ts";
import { eventually } from "./_harness/eventually.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import { PluginDirectory } from "./_harness/plugin_directory.ts";
import { needsInetRules, nftRules } from "./_harness/rules.ts";
import type { Spawned } from "./_harness/spawn_in.ts";

/** Held resources; equal before and after a run that leaves nothing. */
interface Held {
  /** Names of the processes in the network namespaces, but the test's own. */
  readonly processes: readonly string[];
  /** Files in the directory on which somebody holds a lock. */
  readonly locks: readonly string[];
  /** Network namespaces of the daemon's threads, and of its mounts. */
  readonly namespaces: readonly string[];
}

/**
 * Looks at a node.
 *
 * @param directory Where the node's files are
 * @param pid The daemon's
 */
function whatIsHeld(
  namespaces: readonly NetNs[],
  directory: string,
  pid: number,
): Held {
  const inside = new Set(namespaces.map(({ path }) => {
    const { dev, ino } = Deno.statSync(path);
    return `${dev}:${ino}`;
  }));
  return {
    processes: listNames("/proc").filter((name) => /^\d+$/.test(name))
      .filter((name) => Number(name) !== Deno.pid)
      .flatMap((name) =>
        tryTo(() => {
          const { dev, ino } = Deno.statSync(`/proc/${name}/ns/net`);
          if (!inside.has(`${dev}:${ino}`)) return [];
          return [Deno.readTextFileSync(`/proc/${name}/comm`).trim()];
        })
      ).sort(),
    locks: listLocked(directory),
    namespaces: [
      ...new Set([
        ...listNames(`/proc/${pid}/task`).flatMap((task) =>
          tryTo(() => [Deno.readLinkSync(`/proc/${pid}/task/${task}/ns/net`)])
        ),
        ...tryTo(() =>
          Deno.readTextFileSync(`/proc/${pid}/mountinfo`).split("\n")
            .filter((line) => line.includes(directory))
        ),
      ]),
    ].sort(),
  };
}

/**
 * Lists what the descriptors of a process are, without numbers: such as
 * `/dev/null`, `unix socket` or `netlink socket of protocol 12`.
 */
function listDescriptors(pid: number): string[] {
  const kinds = describeSockets(pid);
  return listNames(`/proc/${pid}/fd`).flatMap((name) =>
    tryTo(() => {
      const target = Deno.readLinkSync(`/proc/${pid}/fd/${name}`);
      return [kinds.get(target) ?? target.replace(/\d+/g, "N")];
    })
  ).sort();
}

/** The sockets of a process's network namespace, by what their links say. */
function describeSockets(pid: number): Map<string, string> {
  const rows = (file: string): string[][] =>
    Deno.readTextFileSync(`/proc/${pid}/net/${file}`).trim().split("\n")
      .slice(1).map((row) => row.trim().split(/\s+/));
  return new Map([
    ...rows("netlink").map(([, protocol, ...others]) =>
      [
        `socket:[${others.at(-1)}]`,
        `netlink socket of protocol ${protocol}`,
      ] as const
    ),
    ...rows("unix").map(([, , , , , , inode]) =>
      [`socket:[${inode}]`, "unix socket"] as const
    ),
  ]);
}

/** Lists the locked files below a directory. */
function listLocked(directory: string): string[] {
  return tryTo(() =>
    [...Deno.readDirSync(directory)].flatMap(
      ({ name, isDirectory, isFile }) => {
        const path = `${directory}/${name}`;
        if (isDirectory) return listLocked(path);
        if (!isFile) return [];
        using lock = FileLock.tryAcquire(path, { create: false });
        return lock === undefined ? [path] : [];
      },
    )
  ).sort();
}

function listNames(directory: string): string[] {
  return tryTo(() => [...Deno.readDirSync(directory)].map(({ name }) => name));
}

/** What goes away while it is looked at does not count. */
function tryTo<Item>(look: () => Item[]): Item[] {
  try {
    return look();
  } catch {
    return [];
  }
}

const MINUTES = Number(Deno.env.get("CNI_SOAK_MINUTES") || 0);
const ATTACHMENTS = MINUTES > 0
  ? Infinity
  : Number(Deno.env.get("CNI_SOAK") || 80);
const isSoak = MINUTES > 0 || Deno.env.has("CNI_SOAK");
const AT_ONCE = 16;
/** How often figures are printed, in ms. */
const REPORT_MS = 15_000;
/** Attachments of the last daemon before it is measured for the first time. */
const WARM = isSoak ? 1000 : 40;
/** Attachments after that from which on the memory is compared. */
const MANY = 1000;
/** How many calls begin between two kills of a caller, and of the daemon. */
const CALLS_PER_KILL = 6, CALLS_PER_DAEMON = Math.min(100, ATTACHMENTS / 2);
/** How many calls begin between two stops of the daemon, and how long these are, in ms. */
const CALLS_PER_STOP = 500;
const STOPS_MS = [10, 300, 1500, 6000] as const;
/** How often a caller is killed besides, in ms. */
const KILL_MS = 200;
/**
 * A third-party plugin, which fails one call in four while the file `fails` is next
 * to it, and the kills until it is removed, and until it is restored.
 */
const UNRELIABLE = "unreliable", KILLS_PER_REMOVAL = 10;
const UNRELIABLE_SCRIPT = `stdin=$(cat)
if [ -e "$(dirname "$0")/fails" ] && [ $(($(od -An -N1 -tu1 /dev/urandom) % 4)) = 0 ]
then
  echo '{"cniVersion":"1.1.0","code":999,"msg":"unreliable"}'
  exit 1
fi
[ "$CNI_COMMAND" = ADD ] || exit 0
echo "$stdin" | sed -E 's/^.*"prevResult":(.*),"type":"unreliable"}$/\\1/'`;
/**
 * How often a DEL is killed at most. On a slow machine the last pod's would be
 * killed each time: it is the only call that is left.
 */
const MOST_KILLS = 10;
/** How many calls make the daemon collect its garbage, once it is idle. */
const CALLS_PER_COLLECTION = 100;

/** Between two looks of the daemon at how long it has stood still, in ms. */
const LOOK_MS = 1000;

/** A socket to nf_tables (NETLINK_NETFILTER). */
const NFTABLES_SOCKET = "netlink socket of protocol 12";
/**
 * How many of them the daemon keeps at most: as many as concurrent calls
 * needed, and one that receives notifications.
 */
const MOST_KEPT = 5;

/** Exit code of a process that SIGKILL has ended. */
const KILLED = 128 + 9;

const needs = allOf(
  needsBin,
  needsInetRules,
  ignoreUnless(hasCommand("flock"), "needs flock"),
);

/** A pod, in the sandbox of one that is gone. */
interface Pod {
  readonly containerId: string;
  readonly sandbox: NetNs;
  readonly network: Network;
  readonly number: number;
}

/** A network of the node. */
interface Network {
  readonly name: string;
  /** The plugin that the runtime calls. */
  readonly type: string;
  /** Whether the daemon runs the calls. */
  readonly byDaemon: boolean;
  /** The configuration's other keys, for a pod. */
  readonly keys: (node: TestHosts, number: number) => Record<string, unknown>;
}

const LIMITS = {
  ingressRate: 1_000_000,
  ingressBurst: 1_000_000,
  egressRate: 1_000_000,
  egressBurst: 1_000_000,
};

/** Maps a host port of its own to each pod. */
function mapPort(backend: string, number: number): Record<string, unknown> {
  const portMappings = [
    { hostPort: 20_000 + number % 10_000, containerPort: 80, protocol: "tcp" },
  ];
  return { type: "portmap", backend, runtimeConfig: { portMappings } };
}

// So few addresses that each is used again soon, and none may be lost.
const NETWORKS: readonly Network[] = [
  {
    name: "pods",
    type: "chain",
    byDaemon: true,
    keys: (node) => ({
      plugins: [
        { type: "ptp", ipMasq: true, ipam: node.hostLocal("10.1.2.0/27") },
        { type: "bandwidth", ...LIMITS },
        { type: "sbr" },
        { type: UNRELIABLE },
      ],
    }),
  },
  {
    name: "bridged",
    type: "chain",
    byDaemon: true,
    keys: (node, number) => ({
      plugins: [
        {
          type: "bridge",
          bridge: "soak0",
          isGateway: true,
          ipam: node.hostLocal("10.1.3.0/27"),
        },
        mapPort("nftables", number),
      ],
    }),
  },
  {
    name: "ports",
    type: "chain",
    byDaemon: false,
    keys: (node, number) => ({
      plugins: [
        { type: "ptp", ipam: node.hostLocal("10.1.4.0/27") },
        { type: UNRELIABLE },
        mapPort("iptables", number),
      ],
    }),
  },
  {
    name: "several",
    type: "multus",
    byDaemon: true,
    keys: (node) => ({
      cniDir: `${node.directory}/multus`,
      binDir: BIN,
      delegates: [{
        cniVersion: "1.1.0",
        name: "several",
        plugins: [
          { type: "ptp", ipam: node.hostLocal("10.1.5.0/27") },
          { type: "sbr" },
        ],
      }],
    }),
  },
];

/** How a call ended. */
interface EndedCall extends ExecOutput {
  readonly isKilled: boolean;
  /** Whether the daemon was killed or stopped in between. */
  readonly lostDaemon: boolean;
}

/** Memory and descriptors of the daemon's process. */
interface Resources {
  /** Resident memory, in KiB. */
  readonly rss: number;
  /** The files behind its descriptors, without numbers. */
  readonly descriptors: readonly string[];
}

/** A node with a daemon, and calls that are killed. */
class Node implements AsyncDisposable {
  readonly #hosts: TestHosts;
  readonly #plugins = new PluginDirectory();
  #daemon: NodeDaemon;
  readonly #sandboxes: readonly NetNs[];
  #before: unknown;
  readonly #random = createRandom(1);
  readonly #running = new Set<Spawned>();
  /** The pod of each address in use. */
  readonly #holders = new Map<string, string>();
  /** How often the timer has killed a caller. */
  #ticks = 0;
  #restarting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #pods = 0;
  /** Whether the daemon is also killed. */
  killsDaemon = true;
  /** Returns how many pods there were. */
  get pods(): number {
    return this.#pods;
  }

  /** Violations so far, in words. */
  readonly failures: string[] = [];
  readonly figures = {
    calls: 0,
    kills: 0,
    daemonKills: 0,
    stops: 0,
    lostAdds: 0,
    /** How often the unreliable plugin failed, and was missing. */
    failed: 0,
    missing: 0,
  };

  private constructor(hosts: TestHosts, daemon: NodeDaemon) {
    this.#hosts = hosts;
    this.#daemon = daemon;
    this.#plugins.add(UNRELIABLE, UNRELIABLE_SCRIPT);
    this.#sandboxes = Array.from({ length: AT_ONCE }, () => hosts.addNetns());
  }

  static async start(): Promise<Node> {
    using stack = new DisposableStack();
    const hosts = stack.use(TestHosts.create());
    const node = new Node(hosts, await NodeDaemon.start(hosts));
    await node.#makeWhatStays();
    stack.move();
    return node;
  }

  /** A pod of each network makes bridge, tables and directories, which stay. */
  async #makeWhatStays(): Promise<void> {
    const [sandbox] = this.#sandboxes as [NetNs];
    for (const network of NETWORKS) {
      const number = this.#pods++;
      const pod = { containerId: `soak${number}`, sandbox, network, number };
      for (const command of ["ADD", "DEL"]) {
        const { code, stdout } = await this.#start(command, pod).output;
        assertEquals(code, 0, stdout);
      }
    }
    await this.#settle();
    this.#before = this.#state;
  }

  /** Waits until the bridge has noticed that it has no port. */
  async #settle(): Promise<void> {
    await eventually("the bridge is down", () => {
      const [bridge] = ipJson(this.#hosts.host, "link", "show", "soak0");
      return bridge.operstate === "DOWN";
    });
  }

  /** Attaches and detaches pods until there were enough. */
  async run(isEnough: (pods: number) => boolean): Promise<void> {
    using _killing = this.#killNowAndThen();
    const first = this.#pods;
    await Promise.all(this.#sandboxes.map(async (sandbox) => {
      while (!isEnough(this.#pods - first)) {
        const number = this.#pods++;
        const network = NETWORKS[number % NETWORKS.length] as Network;
        const containerId = `soak${number}`;
        await this.#attachAndDetach({ containerId, sandbox, network, number });
      }
    }));
    await this.#restarting;
    await this.#stopping;
  }

  #killNowAndThen(): Disposable {
    const stack = new DisposableStack();
    const { path } = this.#plugins;
    const [there, removed] = [`${path}/${UNRELIABLE}`, `${path}/removed`];
    const fails = this.#plugins.addFile("fails", "");
    stack.defer(() => Deno.removeSync(fails));
    const timer = setInterval(() => {
      this.#killOne();
      if (++this.#ticks % KILLS_PER_REMOVAL !== 0) return;
      if (exists(there)) Deno.renameSync(there, removed);
      else Deno.renameSync(removed, there);
    }, KILL_MS);
    stack.defer(() => {
      clearInterval(timer);
      if (exists(removed)) Deno.renameSync(removed, there);
    });
    return stack;
  }

  #killOne(): void {
    const [first, ...others] = this.#running;
    if (first !== undefined) this.#random.pick([first, ...others]).kill();
  }

  /** Runs the calls of a runtime: DEL follows whatever became of ADD. */
  async #attachAndDetach(pod: Pod): Promise<void> {
    const added = await this.#call("ADD", pod);
    const isAdded = added.code === 0;
    if (isAdded) this.#hold(pod, added);
    else if (!added.isKilled) await this.#checkFailedAdd(pod, added);
    const prevResult = isAdded ? JSON.parse(added.stdout) : undefined;
    if (isAdded) {
      const checked = await this.#call("CHECK", pod, { prevResult });
      const isFine = checked.code === 0 || checked.isKilled ||
        this.#isLost(checked) || this.#isByPlugin(checked);
      if (!isFine) this.#fail("CHECK", pod, checked);
      this.#release(pod, added);
    }
    for (let attempt = 0; attempt < 100; attempt++) {
      const isSpared = attempt >= MOST_KILLS;
      const deleted = await this.#call("DEL", pod, { prevResult }, isSpared);
      if (deleted.code === 0) return;
      if (deleted.isKilled) continue;
      if (!this.#isByPlugin(deleted)) this.#fail("DEL", pod, deleted);
      await pause(KILL_MS);
    }
    this.failures.push(`${pod.containerId} was never deleted`);
  }

  #hold(pod: Pod, added: ExecOutput): void {
    const address = addressIn(added);
    const holder = this.#holders.get(address);
    if (holder !== undefined) {
      this.failures.push(
        `${address} has ${holder}, and now ${pod.containerId}`,
      );
    }
    this.#holders.set(address, pod.containerId);
    this.#checkLease(pod, address);
  }

  #release(pod: Pod, added: ExecOutput): void {
    const address = addressIn(added);
    this.#checkLease(pod, address);
    this.#holders.delete(address);
  }

  #checkLease({ containerId, network }: Pod, address: string): void {
    const path = `${this.#hosts.directory}/leases/${network.name}/${address}`;
    const lease = ifPossible(() => Deno.readTextFileSync(path));
    if (lease === `${containerId}\r\neth0`) return;
    this.failures.push(`${address} of ${containerId} is leased to ${lease}`);
  }

  /** An ADD may only fail for the unreliable plugin, or the loss of its daemon. */
  async #checkFailedAdd(pod: Pod, added: EndedCall): Promise<void> {
    if (this.#isByPlugin(added)) return;
    const lostDaemon = added.lostDaemon || await this.#hasStoodStill();
    if (this.#isLost({ ...added, lostDaemon })) this.figures.lostAdds++;
    else this.#fail("ADD", pod, added);
  }

  /** A caller takes a daemon that the machine does not run for lost. */
  async #hasStoodStill(): Promise<boolean> {
    const sample = "cni_daemon_standstill_seconds_total";
    return await this.#daemon.metric(sample) * 1000 > SILENCE_MS - LOOK_MS;
  }

  #isLost({ lostDaemon, stdout }: EndedCall): boolean {
    return lostDaemon && JSON.parse(stdout).code === 11 &&
      stdout.includes("went away before it answered");
  }

  /** Whether the unreliable plugin failed or was missing, and no other plugin failed. */
  #isByPlugin({ stdout }: EndedCall): boolean {
    const isOther = /type=\\"(?!chain|unreliable)/.test(stdout);
    if (isOther || !stdout.includes(UNRELIABLE)) return false;
    if (stdout.includes("find plugin")) this.figures.missing++;
    else this.figures.failed++;
    return true;
  }

  #fail(command: string, { containerId }: Pod, output: EndedCall): void {
    const text = JSON.stringify(output);
    this.failures.push(`${command} of ${containerId}: ${text}`);
  }

  /** Runs a call, which may be killed unless it is spared. */
  async #call(
    command: string,
    pod: Pod,
    keys: Readonly<Record<string, unknown>> = {},
    isSpared = false,
  ): Promise<EndedCall> {
    const { daemonKills, stops } = this.figures;
    // A killed daemon's socket takes connections until its process has ended.
    const isInTrouble = (this.#restarting ?? this.#stopping) !== undefined;
    const spawned = this.#start(command, pod, keys);
    if (!isSpared) this.#running.add(spawned);
    this.#disturb();
    const output = await spawned.output;
    this.#running.delete(spawned);
    const isKilled = output.code === KILLED;
    if (isKilled) this.figures.kills++;
    return {
      ...output,
      isKilled,
      lostDaemon: isInTrouble || this.figures.daemonKills > daemonKills ||
        this.figures.stops > stops,
    };
  }

  #start(
    command: string,
    pod: Partial<Pod>,
    keys: Readonly<Record<string, unknown>> = {},
  ): Spawned {
    const { network = NETWORKS[0] as Network, number = 0, ...options } = pod;
    const config = {
      cniVersion: "1.1.0",
      name: network.name,
      type: network.type,
      ...network.keys(this.#hosts, number),
      ...keys,
    };
    const env = network.byDaemon ? {} : { CNI_NO_DAEMON: "1" };
    return this.#daemon.call(network.type, command, {
      ...options,
      config,
      env,
      plugins: this.#plugins.path,
    });
  }

  /** Kills or stops somebody now and then, at whatever they are doing. */
  #disturb(): void {
    const { figures } = this;
    figures.calls++;
    if (figures.calls % CALLS_PER_KILL === 0) this.#killOne();
    if (isSoak && figures.calls % CALLS_PER_STOP === 0) {
      this.#stopping ??= this.#stop();
    }
    if (!this.killsDaemon || this.#restarting !== undefined) return;
    if (figures.calls % CALLS_PER_DAEMON === 0) {
      figures.daemonKills++;
      this.#restarting = this.#restart();
    }
  }

  async #stop(): Promise<void> {
    const daemon = this.#daemon;
    this.figures.stops++;
    daemon.signal("SIGSTOP");
    await pause(this.#random.pick(STOPS_MS));
    // It might have been killed in between.
    ifPossible(() => daemon.signal("SIGCONT"));
    this.#stopping = undefined;
  }

  async #restart(): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
    this.#daemon = await NodeDaemon.start(this.#hosts);
    this.#restarting = undefined;
  }

  /**
   * Waits until the daemon is idle, and measures it. Its memory is the least
   * of a time in which it has collected its garbage at least once. Calls are
   * one after the other, so that little new garbage comes before the look.
   */
  async measure(): Promise<Resources> {
    const sample = "cni_daemon_link_deletions_unacknowledged";
    await eventually(
      "no call is under way, and no link is left",
      async () =>
        await this.#daemon.metric(sample) === 0 &&
        await this.#daemon.metric("cni_daemon_calls_running") === 0,
    );
    const count = isSoak ? CALLS_PER_COLLECTION : 0;
    let { rss } = this.resources;
    await eachAtOnce(Array(count).fill(0), 1, async () => {
      const { code, stdout } = await this.#start("STATUS", {}).output;
      assertEquals(code, 0, stdout);
      rss = Math.min(rss, this.resources.rss);
    });
    // It collects after a second without calls; and connections that have just
    // ended are closed in the process.
    for (let look = 0; look < (isSoak ? 60 : 20); look++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      rss = Math.min(rss, this.resources.rss);
    }
    return { ...this.resources, rss };
  }

  /** The daemon's memory and descriptors now. */
  get resources(): Resources {
    const { pid } = this.#daemon;
    const status = Deno.readTextFileSync(`/proc/${pid}/status`);
    const rss = Number(/VmRSS:\s*(\d+)/.exec(status)?.[1]);
    return { rss, descriptors: listDescriptors(pid) };
  }

  /** Runs GC as a runtime without pods does. */
  async collectGarbage(): Promise<void> {
    const keys = { "cni.dev/valid-attachments": [] };
    for (const network of NETWORKS) {
      const { code, stdout } = await this.#start("GC", { network }, keys)
        .output;
      assertEquals(code, 0, stdout);
    }
  }

  /** Processes, locks, and namespaces of the daemon. */
  get held(): Held {
    const { host, directory } = this.#hosts;
    const namespaces = [host, ...this.#sandboxes];
    return whatIsHeld(namespaces, directory, this.#daemon.pid);
  }

  /** Links, routes and rules of all, and files elsewhere. */
  get #state(): unknown {
    const { host } = this.#hosts;
    const list = "find /var/lib/cni 2> /dev/null; true";
    return {
      host: snapshot(host),
      rules: [...actingRules(host), ...nftRules(host, /soak\d/)],
      sandboxes: this.#sandboxes.map(snapshot),
      files: runIn(host, "sh", "-c", list).split("\n").sort(),
    };
  }

  /** Locks of its pods' chains. Other tests have theirs in the same directory. */
  get #chainLocks(): string[] {
    const own = new Set(
      NETWORKS.flatMap(({ name }) =>
        Array.from(
          { length: this.#pods },
          (_, number) => stableName("", name, `soak${number}`, "eth0"),
        )
      ),
    );
    const there = ifPossible(() => [...Deno.readDirSync("/run/cni/chain")]);
    return (there ?? []).map(({ name }) => name).filter((name) =>
      own.has(name)
    );
  }

  /** Asserts that everything is as before the first pod. */
  async assertNothingIsLeft({ mayHaveDeadLocks = false } = {}): Promise<void> {
    const { directory, host } = this.#hosts;
    await this.#settle();
    assertEquals(this.#state, this.#before);
    assertEquals(this.#chainLocks, []);
    const { processes, locks, namespaces } = this.held;
    // The kernel shows the thread's name: the daemon, and nobody else.
    assertEquals([processes.length, namespaces.length], [1, 1], `${processes}`);
    assertEquals(locks.filter((path) => !path.endsWith("/daemon.lock")), []);
    const leases = `${directory}/leases`;
    for (const { name } of NETWORKS) {
      const files = [...Deno.readDirSync(`${leases}/${name}`)]
        .map((file) => file.name).sort();
      assertEquals(files, ["last_reserved_ip.0", "lock"], name);
      // Fails if somebody holds it.
      runIn(host, "flock", "--nonblock", `${leases}/${name}/lock`, "true");
    }
    const remembered = runIn(host, "find", `${directory}/multus`, "-type", "f")
      .split("\n").filter((path) => !/^$|\/locks\/\.(gate|all)$/.test(path))
      // Of writers that were killed; the next ones use them again.
      .filter((path) => !isSoak || !/\/\.unfinished\/\d+$/.test(path))
      // Of a daemon that was killed after a pod's last DEL; GC removes them.
      .filter((path) => !mayHaveDeadLocks || !/\/locks\/soak\d+$/.test(path));
    assertEquals(remembered, []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#restarting;
    await this.#daemon[Symbol.asyncDispose]();
    this.#hosts[Symbol.dispose]();
    this.#plugins[Symbol.dispose]();
  }
}

/** Returns the address in a result. */
function addressIn({ stdout }: ExecOutput): string {
  return JSON.parse(stdout).ips[0].address.split("/")[0];
}

/** Descriptors that are neither those of before nor sockets that are kept. */
function added(before: Resources, now: Resources): string[] {
  const isKept = (name: string): boolean => name === NFTABLES_SOCKET;
  const left = before.descriptors.filter((name) => !isKept(name));
  const others = now.descriptors.filter((name) => !isKept(name))
    .filter((name) => {
      const index = left.indexOf(name);
      if (index >= 0) left.splice(index, 1);
      return index < 0;
    });
  return [...others, ...now.descriptors.filter(isKept).slice(MOST_KEPT)];
}

/** Prints figures now and then, if the run is a long one. */
function report(node: Node, seconds: () => number): Disposable {
  const stack = new DisposableStack();
  if (!isSoak) return stack;
  const timer = setInterval(() => {
    const { pods, figures, failures } = node;
    const said = { seconds: seconds(), pods, ...figures };
    console.log({ ...said, failures: failures.length });
  }, REPORT_MS);
  stack.defer(() => clearInterval(timer));
  return stack;
}

rootTest(
  "daemon: pods start and stop while callers and daemons are killed",
  needs,
  async () => {
    const startMs = performance.now();
    const seconds = (): number =>
      Math.round((performance.now() - startMs) / 1000);
    await using node = await Node.start();
    using _progress = report(node, seconds);
    const half = Math.floor(ATTACHMENTS / 2);
    const until = (pods: number, minutes: number) => (done: number): boolean =>
      done >= pods || MINUTES > 0 && seconds() >= minutes * 60;
    await node.run(until(half, MINUTES / 2));
    node.killsDaemon = false;
    await node.run(until(WARM, MINUTES * 3 / 4));
    const warm = await node.measure();
    const { pods } = node;
    await node.run(until(ATTACHMENTS - half - WARM, MINUTES));
    const last = await node.measure();
    if (isSoak) {
      const rss = [warm, last].map((one) => one.rss);
      const descriptors = [warm, last].map((one) => one.descriptors.length);
      console.log({ seconds: seconds(), ...node.figures, rss, descriptors });
    }
    assertEquals(node.failures, []);
    await node.assertNothingIsLeft({ mayHaveDeadLocks: true });
    await node.collectGarbage();
    await node.assertNothingIsLeft();
    const { kills, daemonKills, failed, missing, stops } = node.figures;
    assert(kills > 0 && daemonKills > 0 && failed + missing > 0);
    assert(!isSoak || stops > 0 && failed > 0 && missing > 0);
    await eventually(
      "the daemon has the descriptors of before",
      () => added(warm, node.resources).length === 0,
      () => `and no ${added(warm, node.resources).join(", ")}`,
    );
    if (node.pods - pods < MANY) return;
    const change = last.rss / warm.rss;
    assert(change > 0.9 && change < 1.1, `the memory is ${change} of before`);
  },
);
