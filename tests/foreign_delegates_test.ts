/**
 * Interface plugins of other projects as delegates of multus, which runs as a
 * process and in its daemon; their IPAM plugins are ours, or their own.
 *
 * `CNI_FOREIGN_PLUGINS` names the directory of their executables.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../base/json/json.ts";
import { inNetns } from "../ffi/netns.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../testing/capabilities.ts";
import { ipJson, runIn } from "../testing/ip_json.ts";
import { eventually } from "./_harness/eventually.ts";
import { DIRECTORY as API_DIRECTORY } from "./_harness/kube_apiserver.ts";
import { killIfAlive } from "./_harness/process_group.ts";
import { MultusDaemon } from "../plugins/multus/testing/daemon.ts";
import {
  BIN,
  type HostCall,
  type HostPod,
  hostTest,
  MultusHost,
} from "../plugins/multus/testing/host.ts";

const DIRECTORY = Deno.env.get("CNI_FOREIGN_PLUGINS") ?? "";

const ETCD = `${API_DIRECTORY}/etcd`;

/** Keys of these networks that name something of the node. */
const FOREIGN_KEYS = ["ovs.socket_file", "kube-ovn.server_socket"];

/** A network whose interface plugin is another project's. */
interface Foreign {
  readonly type: string;
  readonly needs: Needs;
  /** Prepares the node. */
  readonly prepare: (host: MultusHost, stack: AsyncDisposableStack) =>
    | Prepared
    | Promise<Prepared>;
  /** The networks of a pod; `foreign` if undefined. */
  readonly networks?: string;
  /** Whether it is the network of every pod. */
  readonly isMaster?: boolean;
}

/** A node on which the plugin can attach pods. */
interface Prepared {
  /** Keys of the network. */
  readonly keys: JsonObject;
  /** Starts again what the node's boot starts. */
  readonly reboot?: () => Promise<void>;
  /** Lists what the plugin has left on the node. */
  readonly remains?: () => string[];
}

const FOREIGN: readonly Foreign[] = [
  {
    type: "ovs",
    needs: ignoreUnless(hasCommand("ovs-vswitchd"), "needs Open vSwitch"),
    prepare: startOpenVSwitch,
  },
  {
    type: "bond",
    needs: ignoreUnless(hasBonding(), "needs a kernel with bonding"),
    prepare: ({ hosts }) => ({
      keys: {
        mode: "active-backup",
        failOverMac: 1,
        linksInContainer: true,
        miimon: "100",
        links: [{ name: "net1" }, { name: "net2" }],
        ipam: hosts.hostLocal("10.40.0.0/24"),
      },
    }),
    networks: "green,green,foreign",
  },
  {
    type: "calico",
    needs: ignoreUnless(
      isExecutable(ETCD) && isExecutable(`${DIRECTORY}/calico-ipam`),
      "needs calico-ipam, and etcd in CNI_KUBE_APISERVER_DIR",
    ),
    prepare: startCalico,
    // Its default route is the pod's.
    isMaster: true,
    networks: "green",
  },
];

/** Plugins that cannot attach here: they lack a device, or their daemon. */
const HELPLESS = [
  {
    type: "sriov",
    keys: { deviceID: "0000:00:1f.7" },
    error: /0000:00:1f\.7/,
    isForgotten: true,
  },
  {
    type: "kube-ovn",
    keys: { server_socket: "/run/no/kube-ovn-daemon.sock", provider: "x" },
    error: /RPC failed/,
    // DEL fails as well, and is to be tried again.
    isForgotten: false,
  },
];

const has = (type: string): Needs =>
  ignoreUnless(
    isExecutable(`${DIRECTORY}/${type}`),
    `needs CNI_FOREIGN_PLUGINS with "${type}"`,
  );

for (const { type, needs, prepare, networks, isMaster } of FOREIGN) {
  hostTest(`multus with ${type}`, allOf(has(type), needs), async (t) => {
    await using stack = new AsyncDisposableStack();
    const host = stack.use(await MultusHost.start({ cniVersion: "1.1.0" }));
    const { keys, reboot, remains } = await prepare(host, stack);
    const conf = addNetwork(host, type, keys);
    const all = (): string[] => [
      ...host.remains(),
      ...host.hosts.leases("foreign").filter((name) => /^\d/.test(name)),
      ...remains?.() ?? [],
    ];
    const before = all();
    const options = { networks: networks ?? "foreign" };
    const daemon = stack.use(await MultusDaemon.start(host));
    const ways = waysOf(daemon, isMaster ? { delegates: [conf] } : {});

    for (const [way, call] of Object.entries(ways)) {
      const name = way.replace(" ", "-");
      await t.step(`by ${way}: ADD, CHECK, DEL`, async () => {
        const pod = host.addPod(`${name}-1`, options);
        const { json } = await succeed(host, "ADD", pod, call);
        assertStatus(host, pod);
        await succeed(host, "CHECK", pod, withResult(call, json));
        await succeed(host, "DEL", pod, call);
        await succeed(host, "DEL", pod, call);
        assertEquals(all(), before);
      });

      await t.step(`by ${way}: GC keeps valid attachments`, async () => {
        const pods = ["2", "3"].map((suffix) =>
          host.addPod(`${name}-${suffix}`, options)
        );
        const results = [];
        for (const pod of pods) {
          results.push((await succeed(host, "ADD", pod, call)).json);
        }
        const [kept, gone] = pods as [HostPod, HostPod];
        // A record that is as new as GC itself stays until the next one.
        await eventually("one pod is released", async () => {
          await succeed(host, "GC", kept, withValid(call, kept));
          return host.remainsOf(gone).length === 0;
        });
        await succeed(host, "CHECK", kept, withResult(call, results[0]));
        await eventually("the other one is released", async () => {
          await succeed(host, "GC", kept, withValid(call));
          return host.remainsOf(kept).length === 0;
        });
        assertEquals(all(), before);
      });

      await t.step(`by ${way}: DEL after a reboot`, async () => {
        const pod = host.addPod(`${name}-4`, options);
        await succeed(host, "ADD", pod, call);
        pod[Symbol.dispose]();
        await eventually(
          "its links are gone",
          () => linksOf(host).every((link) => !/^(veth|cali)/.test(link)),
        );
        await reboot?.();
        await succeed(host, "DEL", pod, {
          ...call,
          env: { ...call.env, CNI_NETNS: "" },
        });
        assertEquals(all(), before);
      });

      await t.step(`by ${way}: DEL without the API server`, async () => {
        const pod = host.addPod(`${name}-5`, options);
        const late = host.addPod(`${name}-6`, options);
        await succeed(host, "ADD", pod, call);
        await host.api.stop();
        const { code, json } = await host.call("ADD", late, {
          ...call,
          keys: { ...call.keys, apiTimeoutSeconds: 1 },
        });
        // multus asks it first, or the plugin does.
        assertEquals(code, 1);
        assertMatch(json.msg, /connection refused/);
        assertEquals(late.listInside(), []);
        await succeed(host, "DEL", late, call);
        await succeed(host, "DEL", pod, call);
        assertEquals(all(), before);
        await host.api.restart();
        await eventually("it watches", () => daemon.isWatching());
      });
    }
  });
}

for (const { type, keys, error, isForgotten } of HELPLESS) {
  hostTest(`multus with ${type}, which fails`, has(type), async (t) => {
    await using host = await MultusHost.start({ cniVersion: "1.0.0" });
    addNetwork(host, type, {
      ...keys,
      ipam: host.hosts.hostLocal("10.40.0.0/24"),
    });
    await using daemon = await MultusDaemon.start(host);
    const ways = waysOf(daemon);
    for (const [way, call] of Object.entries(ways)) {
      await t.step(`by ${way}`, async () => {
        const pod = host.addPod(way.replace(" ", "-"), { networks: "foreign" });
        const { code, json } = await host.call("ADD", pod, call);
        assertEquals(code, 1);
        assertMatch(`${json.msg} ${json.details}`, error);
        const { code: codeOfDel } = await host.call("DEL", pod, call);
        assertEquals(codeOfDel, isForgotten ? 0 : 1);
        const left = isForgotten ? [] : [pod.containerId];
        assertEquals(host.remainsOf(pod), left);
        assertEquals(host.hosts.leases("foreign"), []);
      });
    }
  });
}

/** Calls that are not handed to the daemon, and calls that are. */
function waysOf(
  { socketDir }: MultusDaemon,
  keys: JsonObject = {},
): Record<string, HostCall> {
  return {
    "a process": callOf({ ...keys, daemonSocketDir: `${socketDir}/none` }),
    "the daemon": callOf({ ...keys, daemonSocketDir: socketDir }),
  };
}

/** A call that finds the other projects' plugins, and ours. */
function callOf(keys: JsonObject): HostCall {
  const definitionKeys = ["host-local.dataDir", ...FOREIGN_KEYS];
  return {
    keys: { binDir: DIRECTORY, definitionKeys, ...keys },
    env: { CNI_PATH: BIN },
  };
}

function withResult(call: HostCall, prevResult: JsonObject): HostCall {
  return { ...call, keys: { ...call.keys, prevResult } };
}

function withValid(call: HostCall, ...pods: readonly HostPod[]): HostCall {
  const valid = pods.map(({ containerId }) => ({
    containerID: containerId,
    ifname: "eth0",
  }));
  const keys = { ...call.keys, "cni.dev/valid-attachments": valid };
  return { ...call, keys };
}

/** Runs multus, which must succeed; other projects' plugins may log. */
async function succeed(
  host: MultusHost,
  command: string,
  pod: HostPod,
  call: HostCall,
): ReturnType<MultusHost["call"]> {
  const output = await host.call(command, pod, call);
  const { code, stdout, stderr } = output;
  assertEquals(code, 0, `${command}: ${stdout}${stderr}`);
  return output;
}

/** Defines the network; returns its configuration. */
function addNetwork(
  host: MultusHost,
  type: string,
  keys: JsonObject,
): JsonObject {
  const conf = { cniVersion: "1.0.0", name: "foreign", type, ...keys };
  host.api.putNad("default", "foreign", conf);
  return conf;
}

/** Checks that the pod's status says what its sandbox has. */
function assertStatus(host: MultusHost, pod: HostPod): void {
  const found = host.status(pod)
    .find(({ name }: { name: string }) => /^(default\/)?foreign$/.test(name));
  const [link] = ipJson(pod.sandbox, "address", "show", "dev", found.interface);
  const addresses = link.addr_info
    .filter(({ family }: { family: string }) => family === "inet")
    .map(({ local }: { local: string }) => local);
  assertEquals([found.mac, found.ips], [link.address, addresses]);
}

function linksOf({ hosts }: MultusHost): string[] {
  return ipJson(hosts.host, "link")
    .map(({ ifname }: { ifname: string }) => ifname);
}

/** Starts Open vSwitch with a bridge of its own data path: no module is needed. */
async function startOpenVSwitch(
  host: MultusHost,
  stack: AsyncDisposableStack,
): Promise<Prepared> {
  const { hosts } = host;
  const directory = `${hosts.directory}/ovs`;
  await Deno.mkdir(directory);
  const start = (program: string, ...args: string[]): Deno.ChildProcess => {
    const command = new Deno.Command(program, {
      args: [...args, "--no-chdir", `--log-file=${directory}/${program}.log`],
      env: { OVS_RUNDIR: directory },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    });
    const child = inNetns(hosts.host, () => command.spawn());
    stack.defer(async () => {
      killIfAlive(child.pid);
      await child.status;
    });
    return child;
  };
  runIn(hosts.host, "ovsdb-tool", "create", `${directory}/conf.db`);
  const socket = `unix:${directory}/db.sock`;
  start("ovsdb-server", `${directory}/conf.db`, `--remote=p${socket}`);
  await eventually("the database answers", () => {
    try {
      ovs(host, "--no-wait", "init");
      return true;
    } catch {
      return false;
    }
  });
  let running = start("ovs-vswitchd", socket);
  ovs(
    host,
    ...["--", "add-br", "br1"],
    ...["--", "set", "bridge", "br1", "datapath_type=netdev"],
  );
  return {
    keys: {
      bridge: "br1",
      vlan: 100,
      socket_file: socket,
      ipam: hosts.hostLocal("10.40.0.0/24"),
    },
    remains: () => ovs(host, "list-ports", "br1"),
    async reboot(): Promise<void> {
      killIfAlive(running.pid);
      await running.status;
      running = start("ovs-vswitchd", socket);
      const query = ["--columns=error", "--bare", "find", "interface"];
      await eventually(
        "the port is missed",
        () =>
          ovs(host, ...query).some((line) => line.includes("No such device")),
      );
    },
  };
}

function ovs({ hosts }: MultusHost, ...args: readonly string[]): string[] {
  const database = `--db=unix:${hosts.directory}/ovs/db.sock`;
  const output = runIn(hosts.host, "ovs-vsctl", database, ...args);
  return output.trim().split("\n").filter((line) => line !== "");
}

/** Starts etcd with what Calico's controllers and its node daemon write there. */
async function startCalico(
  host: MultusHost,
  stack: AsyncDisposableStack,
): Promise<Prepared> {
  const { hosts } = host;
  const command = new Deno.Command(ETCD, {
    args: [`--data-dir=${hosts.directory}/etcd`, "--logger=zap"],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  });
  const child = inNetns(hosts.host, () => command.spawn());
  stack.defer(async () => {
    killIfAlive(child.pid);
    await child.status;
  });
  const ask = (path: string, body: object): JsonObject =>
    JSON.parse(runIn(
      hosts.host,
      ...["curl", "-sS", "--fail", "-d", JSON.stringify(body)],
      `http://127.0.0.1:2379/v3/kv/${path}`,
    ));
  const put = (
    kind: string,
    plural: string,
    name: string,
    spec: object,
  ): void => {
    const object = {
      kind,
      apiVersion: "projectcalico.org/v3",
      metadata: { name, uid: crypto.randomUUID() },
      spec,
    };
    ask("put", {
      key: btoa(`/calico/resources/v3/projectcalico.org/${plural}/${name}`),
      value: btoa(JSON.stringify(object)),
    });
  };
  await eventually("etcd answers", () => {
    try {
      put("ClusterInformation", "clusterinformations", "default", {
        datastoreReady: true,
      });
      return true;
    } catch {
      return false;
    }
  });
  put("Node", "nodes", "node1", {});
  put("IPPool", "ippools", "pool", {
    cidr: "10.40.0.0/16",
    blockSize: 26,
    ipipMode: "Never",
    vxlanMode: "Never",
    nodeSelector: "all()",
    allowedUses: ["Workload", "Tunnel"],
  });
  const list = (prefix: string): string[] => {
    // The end of a range is the next key: "/" and "0" follow each other.
    const end = btoa(`${prefix.slice(0, -1)}0`);
    const { kvs = [] } = ask("range", {
      key: btoa(prefix),
      range_end: end,
      keys_only: true,
    });
    return (kvs as { key: string }[]).map(({ key }) => atob(key));
  };
  return {
    keys: {
      log_level: "warning",
      datastore_type: "etcdv3",
      etcd_endpoints: "http://127.0.0.1:2379",
      nodename: "node1",
      nodename_file_optional: true,
      kubernetes: { kubeconfig: host.kubeconfig },
      ipam: { type: "calico-ipam" },
      ipam_lock_file: `${hosts.directory}/ipam.lock`,
    },
    remains: () => [
      ...list("/calico/ipam/v2/handle/"),
      ...list("/calico/resources/v3/projectcalico.org/workloadendpoints/"),
    ],
  };
}

function hasBonding(): boolean {
  if (!hasCommand("modprobe")) return false;
  const { success } = new Deno.Command("modprobe", {
    args: ["--quiet", "bonding"],
  }).outputSync();
  return success;
}
