/**
 * deploy/monitoring: that the rules say what they should over hours, that what
 * they and the dashboard ask for exists, and, with a real Prometheus, that each
 * alert fires by its fault and clears.
 */

import { assert, assertEquals } from "@std/assert";
import { metrics } from "../../cli/metrics/command.ts";
import { CHECKS } from "../../cli/doctor/checks.ts";
import { pause } from "../../base/deadline.ts";
import { FileLock } from "../../base/files/lock.ts";
import { isObject } from "../../base/json/json.ts";
import { encodeRequest } from "../../daemon/wire/call_format.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { ALERT_CASES, END, HEALTHY } from "./alert_cases.ts";
import { leaseOfNone, LONG_AGO } from "../../cli/doctor/testing/fault.ts";
import { DoctorScene } from "../../cli/doctor/testing/scene.ts";
import { eventually } from "../_harness/eventually.ts";
import { BIN, needsBin } from "../_harness/executables.ts";
import { KubeApi } from "../../kube/testing/kube_api.ts";
import {
  NodeDaemon,
  type NodeDaemonOptions,
  type ReceivedCall,
} from "../_harness/node_daemon.ts";
import {
  MONITORING,
  needsPrometheus,
  Prometheus,
  promtool,
  readRules,
} from "./prometheus.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { spawnIn } from "../_harness/spawn_in.ts";
import { needsInetRules, needsRuleTools } from "../_harness/rules.ts";
import { callWith } from "../_harness/tool_call.ts";

const RULES = readRules();
const ALERTS = RULES.flatMap(({ alert }) => alert ?? []);

Deno.test("monitoring: each alert names an existing finding, or none", () => {
  const codes = [...CHECKS.map(({ code }) => code), "{{ $labels.code }}"];
  for (const { alert, annotations = {} } of RULES) {
    if (alert === undefined) continue;
    const { finding = "", summary = "", description = "" } = annotations;
    assert(finding === "none" || codes.includes(finding), alert);
    for (const code of `${summary}${description}`.match(/CNI\d+/g) ?? []) {
      assert(codes.includes(code), `${alert}: ${code}`);
    }
  }
});

Deno.test("monitoring: each alert has samples and an injected fault", () => {
  assertEquals(
    ALERT_CASES.map(({ alert }) => alert).toSorted(),
    ALERTS.toSorted(),
  );
  assertEquals(FAULTS.map(({ alert }) => alert).toSorted(), ALERTS.toSorted());
});

Deno.test({
  name:
    `monitoring: alerts fire in time, alone, and clear${needsPrometheus.suffix}`,
  ignore: needsPrometheus.ignore,
  async fn(): Promise<void> {
    await promtool("check", "rules", `${MONITORING}/rules.yaml`);
    const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
    try {
      const path = `${directory}/rules_test.yaml`;
      Deno.writeTextFileSync(path, JSON.stringify(formatCases()));
      await promtool("test", "rules", path);
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  },
});

/** Formats the cases as promtool reads them. */
function formatCases(): unknown {
  const count = (expr: string, minute: number, expected: number): unknown => ({
    expr: `count(ALERTS{${expr}alertstate="firing"})`,
    eval_time: `${minute}m`,
    exp_samples: expected === 0 ? [] : [{ labels: "{}", value: expected }],
  });
  return {
    rule_files: [`${MONITORING}/rules.yaml`],
    evaluation_interval: "1m",
    tests: ALERT_CASES.map(({ alert, samples, notYet, fires }) => {
      const name = `alertname="${alert}",`;
      return {
        interval: "1m",
        input_series: Object.entries({ ...HEALTHY, ...samples })
          .map(([series, values]) => ({ series, values })),
        promql_expr_test: [
          count(name, notYet, 0),
          count(name, fires, 1),
          // It is the only one.
          count("", fires, 1),
          count("", END - 1, 0),
        ],
      };
    }),
  };
}

/** Metrics of others. */
const OTHERS = ["up", "node_textfile_mtime_seconds", "ALERTS"];

/** Asserts that rules and dashboard ask for metrics that exist, in expressions that are valid. */
async function assertAllExist(prometheus: Prometheus): Promise<void> {
  const dashboard: unknown = JSON.parse(
    await Deno.readTextFile(`${MONITORING}/dashboard.json`),
  );
  const asked = [...listQueries(dashboard), ...RULES.map(({ expr }) => expr)];
  assert(asked.length > 60, String(asked.length));
  const there = await prometheus.names();
  for (const name of OTHERS) assert(there.includes(name), name);
  for (const query of asked) {
    const names = query.match(/\b(cni|process|instance:cni)_\w+(:\w+)*/g) ?? [];
    const others = OTHERS.filter((name) => query.includes(name));
    assert(names.length + others.length > 0, query);
    for (const name of names) {
      assert(there.includes(name), `${name} in ${query}`);
    }
    const text = query.replaceAll("$__rate_interval", "8s")
      .replaceAll(/\$(daemon|node)\b/g, ".*");
    await prometheus.query(text);
  }
}

/** Lists the queries of a dashboard's panels and annotations. */
function listQueries(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(listQueries);
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === "expr" ? [String(inner)] : listQueries(inner)
  );
}

/** A network for calls of the daemon, which needs no link of the node. */
const NETWORK = "calls";

/** How a daemon differs from the usual one. */
type OtherDaemon = Pick<
  NodeDaemonOptions,
  "args" | "env" | "heals" | "wrapper"
>;

/** A node with a daemon, an API server and Prometheus. */
class Monitored implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly scene: DoctorScene;
  readonly #textfiles: string;
  #api: KubeApi | undefined;
  #daemon: NodeDaemon | undefined;
  #prometheus: Prometheus | undefined;
  #port = 0;

  private constructor(scene: DoctorScene) {
    this.scene = this.#stack.use(scene);
    this.#textfiles = `${scene.hosts.directory}/textfiles`;
    Deno.mkdirSync(this.#textfiles);
    this.#stack.defer(async () => {
      await this.#prometheus?.[Symbol.asyncDispose]();
      await this.#daemon?.[Symbol.asyncDispose]();
      await this.#api?.[Symbol.asyncDispose]();
    });
  }

  static async start(): Promise<Monitored> {
    const monitored = new Monitored(await DoctorScene.create());
    try {
      await monitored.startApi();
      await monitored.startDaemon();
      await monitored.write();
      const { scene } = monitored;
      monitored.#prometheus = await Prometheus.start({
        netns: scene.hosts.host,
        directory: scene.hosts.directory,
        textfiles: monitored.#textfiles,
        daemon: METRICS_ADDRESS,
        edit: hasten,
      });
      return monitored;
    } catch (error) {
      await monitored[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Starts the API server, at the port that it had before. */
  async startApi(): Promise<void> {
    const { host: netns } = this.scene.hosts;
    const options = { netns, port: this.#port, transport: "http" } as const;
    this.#api = await KubeApi.start(options);
    this.#port = Number(new URL(this.#api.url).port);
  }

  /** Has a pod of the node that requests networks, and has none. */
  putPod(networks: string): void {
    const annotations = { "k8s.v1.cni.cncf.io/networks": networks };
    this.#api?.putPod({
      metadata: { namespace: "default", name: "web", uid: "u1", annotations },
      spec: { nodeName: "node1" },
      status: { phase: "Running", podIP: "10.1.0.2" },
    });
  }

  async stopApi(): Promise<void> {
    await this.#api?.[Symbol.asyncDispose]();
    this.#api = undefined;
  }

  /** Starts the daemon; `more` is how it differs from the usual one. */
  async startDaemon(
    { env, args = [], ...more }: OtherDaemon = {},
  ): Promise<void> {
    const { hosts } = this.scene;
    const directory = `${hosts.directory}/kube`;
    Deno.mkdirSync(directory, { recursive: true });
    const kubeconfig = this.#api?.writeKubeconfig(directory, "token");
    this.#daemon = await NodeDaemon.start(hosts, {
      args: [
        `--metrics-address=${METRICS_ADDRESS}`,
        `--kubeconfig=${kubeconfig}`,
        "--max-calls=2",
        "--pod-metrics",
        ...args,
      ],
      wrapper: inOwnMounts(this.scene),
      // Nobody listens there; spans are counted all the same.
      env: {
        NODE_NAME: "node1",
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318",
        ...env,
      },
      ...more,
    });
  }

  async stopDaemon(): Promise<void> {
    await this.#daemon?.[Symbol.asyncDispose]();
    this.#daemon = undefined;
  }

  get daemon(): NodeDaemon {
    assert(this.#daemon !== undefined);
    return this.#daemon;
  }

  get prometheus(): Prometheus {
    assert(this.#prometheus !== undefined);
    return this.#prometheus;
  }

  /** Path of a text file. */
  textfile(name = "cni"): string {
    return `${this.#textfiles}/${name}.prom`;
  }

  /** Writes the text files of the node, as the timers do. */
  async write(cacheDir = this.scene.cacheDir): Promise<void> {
    const { hosts: { host, path }, confDir, proc } = this.scene;
    const flags = {
      "conf-dir": confDir,
      "cache-dir": cacheDir,
      "cni-path": path,
    };
    const options = {
      hostNetns: host.path,
      proc,
      patience: { attempts: 1, timeoutMs: 500 },
      daemonSocket: `${this.scene.hosts.directory}/run/daemon.sock`,
    };
    const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
    const files = [["cni", false], ["cni-findings", true]] as const;
    for (const [name, findings] of files) {
      const textfile = this.textfile(name);
      const call = callWith({ env, flags: { ...flags, textfile, findings } });
      await metrics(call, options);
    }
  }

  /** Starts a call on a network of its own. */
  call(
    command: string,
    { ipam = {}, ...more }: Partial<ReceivedCall> & { ipam?: object } = {},
  ): ReturnType<NodeDaemon["call"]> {
    const config = {
      cniVersion: "1.1.0",
      name: NETWORK,
      type: "ptp",
      ipam: { ...this.scene.hosts.hostLocal("10.9.0.0/24"), ...ipam },
    };
    return this.daemon.call("ptp", command, {
      // The daemon declines calls from other mounts than its own.
      wrapper: [
        "nsenter",
        "--mount",
        // The tests may run in a chroot.
        "--root",
        `--target=${this.daemon.pid}`,
      ],
      config,
      sandbox: this.scene.hosts.sandbox,
      ifName: "eth9",
      ...more,
    });
  }

  /**
   * Waits until an alert fires, or stops firing, and repeats an action during
   * that time.
   */
  async waitFor(
    alert: string,
    expected: boolean,
    meanwhile: () => unknown = () => {},
  ): Promise<void> {
    const isSo = async (): Promise<boolean> => {
      await meanwhile();
      const fires = (await this.prometheus.firing(alert)).length > 0;
      // Rules are evaluated twice a second.
      if (fires !== expected) await pause(50);
      return fires === expected;
    };
    const what = `${alert} ${expected ? "fires" : "clears"}`;
    await eventually(what, isSo, undefined, ALERT_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** Longest wait for an alert, in ms: pods are looked at twice, 30 s apart, before one. */
const ALERT_MS = 180_000;
const METRICS_ADDRESS = "127.0.0.1:9468";

/** Makes seconds of minutes, as far as it goes, and memory scarcer. */
function hasten(rules: string): string {
  return rules.replaceAll(/for: \d+m/g, "for: 1s")
    .replaceAll("[5m]", "[8s]").replaceAll("[30m]", "[30s]")
    .replace("130 * 1024", "100 * 1024");
}

/** Does something to a node. */
type Step = (node: Monitored) => unknown;

/** An alert: how its fault comes, what goes on while it lasts, and how it goes. */
interface Fault {
  readonly alert: string;
  readonly seed?: Step;
  readonly again?: Step;
  readonly fix?: Step;
}

/** A fault that the text files tell: it is seeded by what returns its undo. */
function ofNode(alert: string, seed: (node: Monitored) => () => void): Fault {
  let undo = (): void => {};
  return {
    alert,
    async seed(node): Promise<void> {
      undo = seed(node);
      await node.write();
    },
    async fix(node): Promise<void> {
      undo();
      await node.write();
    },
  };
}

/** Takes addresses of network pods, which has 13 and uses one. */
function takeAddresses(count: number): (node: Monitored) => () => void {
  return ({ scene: { hosts: { directory } } }) => {
    const paths = Array.from(
      { length: count },
      (_, at) => `${directory}/leases/pods/10.1.0.${3 + at}`,
    );
    for (const path of paths) Deno.writeTextFileSync(path, "some\r\neth0");
    return () => paths.forEach((path) => Deno.removeSync(path));
  };
}

/** Calls of a network whose IPAM plugin does not exist. */
function failing(alert: string, command: string): Fault {
  return {
    alert,
    async again(node): Promise<void> {
      await node.call(command, { ipam: { type: "absent" } }).output;
    },
  };
}

/** Packets of a pod that are too long for the other end of its link. */
function dropPackets(): Fault {
  const setMtu = ({ scene }: Monitored, mtu: number): void => {
    const [{ link_index: index }] = ipJson(
      scene.hosts.sandbox,
      "link",
      "show",
      "eth0",
    );
    scene.sh(
      `ip link set $(ip -o link | sed -n 's/^${index}: \\([^@:]*\\).*/\\1/p') mtu ${mtu}`,
    );
  };
  return {
    alert: "CniPodPacketsDropped",
    seed: (node) => setMtu(node, 1280),
    async again({ scene: { hosts: { sandbox } } }): Promise<void> {
      const ping = "ping -q -f -c 100 -w 1 -s 1400 10.1.0.1 > /dev/null; true";
      const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
      const args = ["-c", ping];
      await spawnIn(sandbox, { path: "/bin/sh", args, env, stdin: "" }).output;
    },
    fix: (node) => setMtu(node, 1500),
  };
}

/** Keeps the lock of the leases that the calls need. */
function holdLock({ scene: { hosts: { directory } } }: Monitored): FileLock {
  const lock = FileLock.tryAcquire(`${directory}/leases/${NETWORK}/lock`);
  assert(lock !== undefined);
  return lock;
}

/** Longer than an ADD may take, in ms. */
const SLOW_MS = 6000;

/** An ADD that waits for a lock, after one that does not. */
async function addSlowly(node: Monitored): Promise<void> {
  await node.call("ADD").output;
  await node.call("DEL").output;
  const lock = holdLock(node);
  const startMs = performance.now();
  const adding = node.call("ADD").output;
  await eventually("it was slow", () => performance.now() > startMs + SLOW_MS);
  lock[Symbol.dispose]();
  assertEquals((await adding).code, 0);
  await node.call("DEL").output;
}

/** Calls of one attachment, which wait for the first, which waits for a lock. */
function queueCalls(): Fault {
  const ifName = "eth1";
  let lock: FileLock | undefined;
  let adding: Promise<unknown>[] = [];
  return {
    alert: "CniCallsWait",
    async seed(node): Promise<void> {
      await node.call("ADD").output;
      await node.call("DEL").output;
      lock = holdLock(node);
      adding = [1, 2, 3].map(() => node.call("ADD", { ifName }).output);
    },
    async fix(node): Promise<void> {
      lock?.[Symbol.dispose]();
      await Promise.all(adding);
      await node.call("DEL", { ifName }).output;
    },
  };
}

/** Something that is not a request. */
async function sendNonsense({ daemon }: Monitored): Promise<void> {
  const path = daemon.socket;
  using connection = await Deno.connect({ transport: "unix", path });
  await connection.write(new Uint8Array(1000));
  // Until the daemon has closed it.
  await new Response(connection.readable).bytes().catch(() => {});
}

/** How long a starved daemon stands still and goes on, in ms. */
const STOPPED_MS = 1500, RUNNING_MS = 500;

/** Stops the daemon again and again. */
function starve(): Fault {
  let end = new AbortController();
  let starving: Promise<void> | undefined;
  const run = async ({ daemon }: Monitored): Promise<void> => {
    while (!end.signal.aborted) {
      daemon.signal("SIGSTOP");
      await pause(STOPPED_MS);
      daemon.signal("SIGCONT");
      await pause(RUNNING_MS, end.signal);
    }
  };
  return {
    alert: "CniDaemonStarved",
    seed(node): void {
      end = new AbortController();
      starving = run(node);
    },
    async fix(): Promise<void> {
      end.abort();
      await starving;
    },
  };
}

const STARTED = 'process_start_time_seconds{job="cni-daemon"}';

/** Restarts the daemon, and waits until Prometheus has seen it. */
async function restart(node: Monitored): Promise<void> {
  const started = async (): Promise<string | undefined> =>
    (await node.prometheus.query(STARTED))[0]?.value[1];
  const before = await started();
  await node.stopDaemon();
  await node.startDaemon();
  await eventually("it is seen", async () => {
    const now = await started();
    return now !== undefined && now !== before;
  });
}

/** A fault that a daemon of another kind finds when it starts. */
function ofOtherDaemon(
  alert: string,
  seed: (scene: DoctorScene) => () => void,
  options: (scene: DoctorScene) => OtherDaemon,
): Fault {
  let undo = (): void => {};
  return {
    alert,
    async seed(node): Promise<void> {
      undo = seed(node.scene);
      await node.stopDaemon();
      await node.startDaemon(options(node.scene));
    },
    async fix(node): Promise<void> {
      undo();
      await node.stopDaemon();
      await node.startDaemon();
    },
  };
}

/** Starts a daemon that sees the scene's cache, and nothing else of /var/lib. */
function inOwnMounts({ cacheDir }: DoctorScene): string[] {
  const script = "mount -t tmpfs none /var/lib && mkdir /var/lib/cni && " +
    `mount --bind ${cacheDir} /var/lib/cni && exec "$@"`;
  return ["unshare", "--mount", "sh", "-c", script, "sh"];
}

/** A lease of a deleted container that nobody may remove. */
function keepLease(scene: DoctorScene): () => void {
  const remove = leaseOfNone(scene);
  const lease = `${scene.hosts.directory}/leases/lan/10.2.0.200`;
  scene.sh(`chattr +i ${lease}`);
  return () => {
    scene.sh(`chattr -i ${lease}`);
    remove();
  };
}

/** Takes a container's lease away, which nothing makes again. */
function loseLease({ hosts: { directory } }: DoctorScene): () => void {
  const lease = `${directory}/leases/pods/10.1.0.2`;
  Deno.renameSync(lease, `${directory}/lease`);
  return () => Deno.renameSync(`${directory}/lease`, lease);
}

/**
 * Requests that never end, and fill the memory of a daemon that has run no calls.
 * It gives their memory back when they end.
 */
function fillMemory(): Fault {
  const open = new Set<Deno.UnixConn>();
  const stdin = new Uint8Array(15 * 1024 * 1024);
  const request = encodeRequest({
    identity: "",
    argv0: "ptp",
    environment: "",
    stdin,
  }).subarray(0, -1);
  return {
    alert: "CniDaemonMemory",
    async again({ daemon }): Promise<void> {
      while (open.size < 4) {
        const path = daemon.socket;
        const connection = await Deno.connect({ transport: "unix", path });
        open.add(connection);
        await writeAll(connection, request);
        // The daemon's patience is less than the test's.
        connection.read(new Uint8Array(1)).catch(() => {}).then(() => {
          connection.close();
          open.delete(connection);
        });
      }
    },
    async fix(node): Promise<void> {
      for (const connection of open) connection.closeWrite();
      await node.waitFor("CniDaemonMemory", false);
    },
  };
}

async function writeAll(
  connection: Deno.UnixConn,
  bytes: Uint8Array,
): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    done += await connection.write(bytes.subarray(done));
  }
}

const FAULTS: readonly Fault[] = [
  // First: what other calls leave, the daemon collects after a hundred of them.
  fillMemory(),
  failing("CniAddFails", "ADD"),
  failing("CniDelFails", "DEL"),
  { alert: "CniAddSlow", again: addSlowly },
  queueCalls(),
  { alert: "CniDaemonNotUsed", again: sendNonsense },
  starve(),
  {
    alert: "CniDaemonDown",
    seed: ({ daemon }) => daemon.signal("SIGSTOP"),
    fix: ({ daemon }) => daemon.signal("SIGCONT"),
  },
  ofNode("CniDaemonSilent", ({ daemon }) => {
    daemon.signal("SIGSTOP");
    return () => daemon.signal("SIGCONT");
  }),
  {
    alert: "CniNetworkMissing",
    seed: (node) => node.putPod("lan"),
    fix: (node) => node.putPod(""),
  },
  {
    alert: "CniApiWatchStale",
    seed: (node) => node.stopApi(),
    fix: (node) => node.startApi(),
  },
  dropPackets(),
  ofNode("CniAddressesFew", takeAddresses(11)),
  ofNode("CniAddressesExhausted", takeAddresses(12)),
  ofNode("CniLeftovers", ({ scene }) => leaseOfNone(scene)),
  ofOtherDaemon("CniLeftoverStays", keepLease, (scene) => ({
    heals: true,
    wrapper: inOwnMounts(scene),
    env: { NETCONFPATH: scene.confDir },
  })),
  ofOtherDaemon("CniRepairFails", loseLease, (scene) => ({
    args: ["--repair"],
    wrapper: inOwnMounts(scene),
    env: { CNI_PATH: BIN },
  })),
  ofNode("CniNoNetwork", ({ scene: { confDir } }) => {
    const aside = `${confDir}.aside`;
    Deno.renameSync(confDir, aside);
    Deno.mkdirSync(confDir);
    return () => {
      Deno.removeSync(confDir);
      Deno.renameSync(aside, confDir);
    };
  }),
  ofNode("CniConfigurationUnusable", ({ scene }) => {
    const path = scene.writeConf("05-x.conflist", "{");
    return () => Deno.removeSync(path);
  }),
  ofNode("CniFinding", ({ scene }) => {
    scene.sh("sysctl -qw net.ipv4.ip_forward=0");
    return () => scene.sh("sysctl -qw net.ipv4.ip_forward=1");
  }),
  {
    alert: "CniMetricsOld",
    seed: (node) => Deno.utimeSync(node.textfile(), LONG_AGO, LONG_AGO),
    fix: (node) => node.write(),
  },
  {
    alert: "CniMetricFailed",
    seed: (node) => node.write(node.textfile()),
    fix: (node) => node.write(),
  },
  // Last: a new daemon has no garbage.
  { alert: "CniDaemonRestarts", again: restart },
];

rootTest(
  "monitoring: each alert fires on its fault, and clears",
  allOf(needsPrometheus, needsBin, needsRuleTools, needsInetRules),
  async (t) => {
    await using node = await Monitored.start();
    await t.step("a healthy node", async () => {
      for (const alert of ALERTS) await node.waitFor(alert, false);
    });
    for (const { alert, seed, again, fix } of FAULTS) {
      await t.step(alert, async () => {
        await node.waitFor(alert, false);
        await seed?.(node);
        try {
          await node.waitFor(alert, true, () => again?.(node));
        } finally {
          await fix?.(node);
        }
      });
    }
    await t.step("every metric of rules and dashboard exists", async () => {
      await assertAllExist(node.prometheus);
    });
    await t.step("all have cleared", async () => {
      for (const alert of ALERTS) await node.waitFor(alert, false);
    });
  },
);
