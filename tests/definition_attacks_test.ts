/**
 * What the author of a NetworkAttachmentDefinition can do on a node: through
 * multus, its daemon, the shim and hot plug, all as executables.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../base/json/json.ts";
import { MultusDaemon } from "../plugins/multus/testing/daemon.ts";
import {
  BIN,
  type HostPod,
  MultusHost,
  onHost,
} from "../plugins/multus/testing/host.ts";
import { GO_MULTUS } from "../plugins/multus/testing/thick_daemon.ts";
import {
  hasCommand,
  ignoreUnless,
  isExecutable,
} from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";

/** Where a definition tries it. */
interface AttackPlace {
  /** A directory of the author: what is written to it, or run from it, is seen. */
  readonly directory: string;
  /** Of the node's plugins. */
  readonly kubeconfig: string;
}

/** A definition. */
interface Attack {
  /** The attempt. */
  readonly title: string;
  /** The key that refusals name; undefined if it is allowed. */
  readonly key: string | undefined;
  /**
   * The outcome with Go multus and this project's plugins: done; refused by
   * a plugin; attached without what it tries; or the plugin is not installed.
   */
  readonly withGo: "done" | "refused" | "ignored" | "absent";
  /** The configuration, without cniVersion and name. */
  readonly conf: (place: AttackPlace) => JsonObject;
}

const RUN = ["sh", "-c", "touch ran"];
const SUBNET = "10.66.0.0/24";
/** A chain, a rule's mark and an address of the node, as programs show them. */
const EVIL_CHAIN = "EVIL", EVIL_MARK = "0x1/0x1", EVIL_ADDRESS = "203.0.113.7";
const EVIL: readonly string[] = [EVIL_CHAIN, EVIL_MARK, EVIL_ADDRESS];

const ipam = (keys: JsonObject): JsonObject => ({ type: "ptp", ipam: keys });
const hostLocal = (keys: JsonObject): JsonObject =>
  ipam({ type: "host-local", ranges: [[{ subnet: SUBNET }]], ...keys });
const whereabouts = (keys: JsonObject): JsonObject =>
  ipam({ type: "whereabouts", range: SUBNET, ...keys });
const mapping = (keys: JsonObject): JsonObject => ({
  plugins: [hostLocal({}), {
    type: "portmap",
    backend: "iptables",
    ...keys,
    runtimeConfig: {
      portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    },
  }],
});
const attack = (
  title: string,
  key: string | undefined,
  withGo: Attack["withGo"],
  conf: Attack["conf"],
): Attack => ({ title, key, withGo, conf });

/** The rows. */
const ATTACKS: readonly Attack[] = [
  attack(
    "run a program by `multus` in `ipam`",
    "binDir",
    "done",
    (place) => ({
      type: "bridge",
      bridge: "br-evil",
      binDir: place.directory,
      delegates: [{ name: "z", type: "evil" }],
      ipam: { type: "multus" },
    }),
  ),
  attack(
    "run a program by `multus` in a list",
    "itself",
    "done",
    (place) => ({
      plugins: [{ type: "passthru" }, {
        type: "multus",
        delegates: [{ name: "z", type: "evil" }],
        BinDir: place.directory,
      }],
    }),
  ),
  attack(
    "run a program by hooks of `debug`",
    "type",
    "refused",
    ({ directory }) => ({
      type: "debug",
      addHooks: [[...RUN.slice(0, 2), `touch ${directory}/ran`]],
    }),
  ),
  attack(
    "run a program by `debug` in `ipam`",
    "ipam.type",
    "refused",
    ({ directory }) =>
      ipam({ type: "debug", addHooks: [["touch", `${directory}/ran`]] }),
  ),
  attack(
    "run a program by `debug` in flannel's `delegate`",
    "delegate.type",
    "refused",
    ({ directory }) => ({
      type: "flannel",
      delegate: { type: "debug", addHooks: [["touch", `${directory}/ran`]] },
    }),
  ),
  attack(
    "run a program by `debug` in `chain`",
    "type",
    "refused",
    ({ directory }) => ({
      type: "chain",
      plugins: [{ type: "debug", addHooks: [["touch", `${directory}/ran`]] }],
    }),
  ),
  attack(
    "run a program by another case of `type`",
    "plugins[0].TYPE",
    "ignored",
    ({ directory }) => ({
      plugins: [{
        ...hostLocal({}),
        TYPE: "debug",
        addHooks: [["touch", `${directory}/ran`]],
      }],
    }),
  ),
  attack(
    "run a program by a key of another project's plugin",
    "steps[0].type",
    "ignored",
    ({ directory }) => ({
      ...hostLocal({}),
      steps: [{ type: "debug", addHooks: [["touch", `${directory}/ran`]] }],
    }),
  ),
  attack(
    "run commands of `nft` by conditions of `portmap`",
    "plugins[1].conditionsV4",
    "refused",
    ({ directory }) => ({
      plugins: [hostLocal({}), {
        type: "portmap",
        backend: "nftables",
        conditionsV4: [`\ninclude "${directory}/secret"`],
        runtimeConfig: {
          portMappings: [{
            hostPort: 8080,
            containerPort: 80,
            protocol: "tcp",
          }],
        },
      }],
    }),
  ),
  attack("run `cni` as a plugin", "type", "refused", () => ({ type: "cni" })),
  attack(
    "write a file by `cniOutput` of `debug`",
    "type",
    "refused",
    ({ directory }) => ({
      type: "debug",
      cniOutput: `${directory}/written`,
    }),
  ),
  attack(
    "write files by `dataDir` of `host-local`",
    "ipam.dataDir",
    "done",
    ({ directory }) => hostLocal({ dataDir: `${directory}/written` }),
  ),
  attack(
    "write files by `dataDir` in capitals",
    "ipam.DATADIR",
    "done",
    ({ directory }) => hostLocal({ DATADIR: `${directory}/written` }),
  ),
  attack(
    "write files by `dataDir` of `tuning`",
    "plugins[1].dataDir",
    "done",
    ({ directory }) => ({
      plugins: [hostLocal({}), {
        type: "tuning",
        mtu: 1400,
        dataDir: `${directory}/written`,
      }],
    }),
  ),
  attack(
    "write files by `dataDir` of `flannel`",
    "dataDir",
    "done",
    ({ directory }) => ({
      type: "flannel",
      dataDir: `${directory}/written`,
    }),
  ),
  attack(
    "write files by `dataDir` of `whereabouts`",
    "ipam.dataDir",
    "done",
    ({ directory, kubeconfig }) =>
      whereabouts({
        dataDir: `${directory}/written`,
        kubernetes: { kubeconfig },
      }),
  ),
  attack(
    "write a log by `log_file`",
    "ipam.log_file",
    "ignored",
    ({ directory, kubeconfig }) =>
      whereabouts({
        log_file: `${directory}/written`,
        kubernetes: { kubeconfig },
      }),
  ),
  attack("write a log by `logFile`", "logFile", "ignored", ({ directory }) => ({
    ...hostLocal({}),
    logFile: `${directory}/written`,
  })),
  attack(
    "write device information by `CNIDeviceInfoFile`",
    "runtimeConfig.CNIDeviceInfoFile",
    "ignored",
    ({ directory }) => ({
      ...hostLocal({}),
      runtimeConfig: { CNIDeviceInfoFile: `${directory}/written` },
    }),
  ),
  attack(
    "write a file by the test double `noop`",
    "type",
    "absent",
    ({ directory }) => ({
      type: "noop",
      debugFile: `${directory}/written`,
    }),
  ),
  attack(
    "read a file by `configuration_path`",
    "ipam.configuration_path",
    "done",
    ({ directory }) =>
      whereabouts({ configuration_path: `${directory}/secret` }),
  ),
  attack(
    "read a file by `kubeconfig`",
    "ipam.kubernetes.kubeconfig",
    "done",
    ({ directory }) =>
      whereabouts({ kubernetes: { kubeconfig: `${directory}/secret` } }),
  ),
  attack(
    "read a file by `resolvConf`",
    "ipam.resolvConf",
    "done",
    ({ directory }) => hostLocal({ resolvConf: `${directory}/secret` }),
  ),
  attack(
    "read a file by `subnetFile`",
    "subnetFile",
    "done",
    ({ directory }) => ({
      type: "flannel",
      subnetFile: `${directory}/secret`,
    }),
  ),
  attack(
    "send credentials to another API server",
    "ipam.kubernetes.k8s_api_root",
    "ignored",
    ({ kubeconfig }) =>
      whereabouts({
        kubernetes: { k8s_api_root: "https://192.0.2.1", kubeconfig },
      }),
  ),
  attack("reach a socket by `remote`", "type", "done", ({ directory }) => ({
    type: "remote",
    socket: `${directory}/evil.sock`,
    basePath: "/v1",
    envAll: true,
  })),
  attack("reach a socket by `contivk8s`", "type", "done", ({ directory }) => ({
    type: "contivk8s",
    socket: `${directory}/evil.sock`,
  })),
  attack(
    "reach a socket by `daemonSocket`",
    "daemonSocket",
    "done",
    ({ directory }) => ({
      ...hostLocal({}),
      daemonSocket: `${directory}/evil.sock`,
    }),
  ),
  attack(
    "reach a socket by `daemonSocket` of an IPAM plugin",
    "ipam.daemonSocket",
    "ignored",
    ({ directory }) => hostLocal({ daemonSocket: `${directory}/evil.sock` }),
  ),
  attack(
    "write a log by a key that is not known",
    "log-file",
    "ignored",
    ({ directory }) => ({
      ...hostLocal({}),
      "log-file": `${directory}/written`,
    }),
  ),
  attack(
    "reach a socket by a key that is not known",
    "ipam.event_address",
    "ignored",
    ({ directory }) => hostLocal({ event_address: `${directory}/evil.sock` }),
  ),
  attack(
    "reach a socket by `daemonSocketPath` of `dhcp`",
    "ipam.daemonSocketPath",
    "done",
    ({ directory }) =>
      ipam({ type: "dhcp", daemonSocketPath: `${directory}/evil.sock` }),
  ),
  attack(
    "jump to another program's chain by `iptablesAdminChainName`",
    "plugins[1].iptablesAdminChainName",
    "done",
    () => ({
      plugins: [hostLocal({}), {
        type: "firewall",
        backend: "iptables",
        iptablesAdminChainName: EVIL_CHAIN,
      }],
    }),
  ),
  attack(
    "add addresses to another zone by `firewalldZone`",
    "plugins[1].firewalldZone",
    "ignored",
    () => ({
      plugins: [hostLocal({}), { type: "firewall", firewalldZone: "public" }],
    }),
  ),
  attack(
    "masquerade the packets of others by `markMasqBit`",
    "plugins[1].markMasqBit",
    "done",
    () => mapping({ markMasqBit: 0 }),
  ),
  attack(
    "jump to another program's chain by `externalSetMarkChain`",
    "plugins[1].externalSetMarkChain",
    "refused",
    () => mapping({ externalSetMarkChain: "NONE" }),
  ),
  attack(
    "give the node an address by `hostAddresses`",
    "hostAddresses",
    "done",
    () => ({
      type: "macvlan",
      master: "wire0",
      hostAccess: true,
      hostAddresses: [EVIL_ADDRESS],
      ipam: { type: "static", addresses: [{ address: "10.66.0.9/24" }] },
    }),
  ),
  attack("take a link of the node by `host-device`", undefined, "done", () => ({
    type: "host-device",
    device: "wire0",
  })),
  attack("join a bridge of the node", undefined, "done", () => ({
    type: "bridge",
    bridge: "br-blue",
  })),
];

/** How a call ended: the error, or undefined. */
type Ending = { readonly code: number; readonly msg: string } | undefined;

/** The name of a definition: its place in the table. */
const nameOf = (attack: Attack): string => `attack-${ATTACKS.indexOf(attack)}`;

/** A node with a definition for each row, and a directory of their author. */
class Node implements AsyncDisposable {
  readonly host: MultusHost;
  readonly daemon: MultusDaemon;
  readonly directory: string;

  private constructor(
    host: MultusHost,
    daemon: MultusDaemon,
    directory: string,
  ) {
    this.host = host;
    this.daemon = daemon;
    this.directory = directory;
  }

  static async start(
    transport: "http" | "https" = "http",
  ): Promise<Node> {
    const host = await MultusHost.start({ transport });
    const directory = directoryOf(host);
    Deno.mkdirSync(directory);
    Deno.writeTextFileSync(
      `${directory}/evil`,
      `#!/bin/sh\ntouch ${directory}/ran\n`,
    );
    Deno.chmodSync(`${directory}/evil`, 0o755);
    Deno.writeTextFileSync(`${directory}/secret`, "topsecret\n");
    host.api.put("namespaces", { metadata: { name: "kube-system" } });
    for (const attack of ATTACKS) {
      host.api.putNad("default", nameOf(attack), confOf(attack, host));
    }
    // Hot plug keeps its state there.
    const config = `${host.hosts.directory}/daemon.json`;
    const { cniDir, kubeconfig } = host;
    const keys = { cniDir, kubeconfig, binDir: BIN };
    Deno.writeTextFileSync(config, JSON.stringify(keys));
    const flags = [`--config=${config}`];
    const daemon = await MultusDaemon.start(host, kubeconfig, flags);
    return new Node(host, daemon, directory);
  }

  addPod(attack: Attack, way: string): HostPod {
    const networks = nameOf(attack);
    return this.host.addPod(`${networks}-by-${way}`, { networks });
  }

  async add(pod: HostPod, command: string, socketDir: string): Promise<Ending> {
    const keys = { daemonSocketDir: socketDir, definitionKeys: [] };
    const call = { keys, command: [`${BIN}/${command}`] };
    const { code, json } = await this.host.call("ADD", pod, call);
    return code === 0 ? undefined : json;
  }

  /** Has the daemon attach a pod to one more network. */
  async plug(pod: HostPod, attack: Attack): Promise<Ending> {
    const conf = JSON.stringify(confOf(attack, this.host));
    const path = `${this.daemon.socketDir}/multus.sock`;
    using client = Deno.createHttpClient({
      proxy: { transport: "unix", path },
    });
    const body = JSON.stringify({
      config: new TextEncoder().encode(conf).toBase64(),
      env: {
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: pod.containerId,
        CNI_NETNS: pod.sandbox.path,
        CNI_IFNAME: "net7",
        CNI_PATH: BIN,
        CNI_ARGS: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod.name}`,
      },
    });
    const url = "http://daemon/delegate";
    const answer = await fetch(url, { client, method: "POST", body });
    const text = await answer.text();
    return answer.status === 200 ? undefined : JSON.parse(text);
  }

  /** Lists what the author's directory has. */
  get seen(): string[] {
    return [...Deno.readDirSync(this.directory)].map(({ name }) => name).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.host[Symbol.asyncDispose]();
  }
}

/** Returns the directory of the author. */
const directoryOf = ({ hosts }: MultusHost): string =>
  `${hosts.directory}/author`;

function confOf(attack: Attack, host: MultusHost): JsonObject {
  const { kubeconfig } = host;
  return {
    cniVersion: "1.0.0",
    name: nameOf(attack),
    ...attack.conf({ directory: directoryOf(host), kubeconfig }),
  };
}

function assertRefused(node: Node, ending: Ending, key: string): void {
  assert(ending !== undefined, "it was done");
  const { code, msg } = ending;
  assertEquals(code, 7, msg);
  const isMultus = msg.includes("multus would call itself");
  assertStringIncludes(msg, isMultus ? "itself" : `"${key}"`);
  assert(!msg.includes("topsecret"), msg);
  assertEquals(node.seen, ["evil", "secret"]);
}

const REFUSED = ATTACKS.filter(({ key }) => key !== undefined);
const ALLOWED = ATTACKS.filter(({ key }) => key === undefined);

Deno.test({
  ...onHost("a definition runs, writes, reads and reaches nothing of the node"),
  async fn(t): Promise<void> {
    await using node = await Node.start();
    const none = `${node.host.hosts.directory}/none`;
    const { socketDir } = node.daemon;
    const ways: Record<
      string,
      (pod: HostPod, attack: Attack) => Promise<Ending>
    > = {
      multus: (pod) => node.add(pod, "multus", none),
      daemon: (pod) => node.add(pod, "multus", socketDir),
      shim: (pod) => node.add(pod, "multus-shim", socketDir),
      plug: (pod, attack) => node.plug(pod, attack),
    };
    for (const attack of REFUSED) {
      await t.step(attack.title, async () => {
        for (const [way, run] of Object.entries(ways)) {
          const pod = node.addPod(attack, way);
          assertRefused(node, await run(pod, attack), attack.key ?? "");
          assertEquals(node.host.remainsOf(pod), [], way);
        }
      });
    }
    const events = node.host.api.events
      .filter(({ reason }) => reason === "NetworkRefused");
    assert(events.length > REFUSED.length, `${events.length} events`);
  },
});

Deno.test({
  ...onHost("a definition may use the interfaces of the node"),
  async fn(t): Promise<void> {
    await using node = await Node.start();
    const veth = ["type", "veth", "peer", "wire1"];
    runIn(node.host.hosts.host, "ip", "link", "add", "wire0", ...veth);
    for (const attack of ALLOWED) {
      await t.step(attack.title, async () => {
        const pod = node.addPod(attack, "multus");
        const ending = await node.add(pod, "multus", node.daemon.socketDir);
        assertEquals(ending, undefined);
        assertEquals(node.host.interfaces(pod), ["eth0", "lo", "net1"]);
        await node.host.succeed("DEL", pod);
      });
    }
  },
});

const MULTUS = `${GO_MULTUS}/multus`;

/** Runs it where /run and /var/lib are its own, and notes what it opens. */
const GO_COMMAND: readonly string[] = [
  "/usr/bin/unshare",
  "-m",
  "sh",
  "-c",
  `mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/lib &&
   mkdir /run/flannel && echo "$SUBNETS" > /run/flannel/subnet.env &&
   exec strace -f -qq -e trace=openat,connect -o "$TRACE" "$0"`,
  MULTUS,
];
const SUBNETS = `FLANNEL_NETWORK=10.67.0.0/16
FLANNEL_SUBNET=10.67.1.1/24
FLANNEL_MTU=1400
FLANNEL_IPMASQ=false`;

/** The address of a server that a definition names. */
const FAR = "192.0.2.1";

/** The API of the tests does not take the status that Go multus writes. */
const UNTOLD = "error setting the networks status";

/** Targets of a definition: files of its author, and servers. */
class Observer implements Disposable {
  readonly #directory: string;
  readonly #listener: Deno.UnixListener;
  /** The file for the calls of a program. */
  readonly trace: string;

  constructor(directory: string) {
    this.#directory = directory;
    this.trace = `${directory}/../trace`;
    this.#listener = Deno.listen({
      transport: "unix",
      path: `${directory}/evil.sock`,
    });
    this.#accept().catch(() => {}); // It was closed while it waited.
  }

  async #accept(): Promise<void> {
    for await (const connection of this.#listener) connection.close();
  }

  /** Returns what a call makes, reads and reaches. */
  async observe(call: () => Promise<void>): Promise<string[]> {
    const list = (): string[] =>
      [...Deno.readDirSync(this.#directory)].map(({ name }) => name);
    const before = list();
    await call();
    const made = list().filter((name) => !before.includes(name));
    for (const name of made) {
      Deno.removeSync(`${this.#directory}/${name}`, { recursive: true });
    }
    const trace = Deno.readTextFileSync(this.trace);
    const named = [
      `${this.#directory}/secret`,
      `${this.#directory}/evil.sock`,
      FAR,
    ];
    return [...made, ...named.filter((name) => trace.includes(`"${name}"`))];
  }

  [Symbol.dispose](): void {
    this.#listener.close();
  }
}

/** Lists what definitions have set in the node's firewall and addresses. */
function listEvil({ hosts: { host } }: MultusHost): string[] {
  const state = runIn(host, "iptables-save") + runIn(host, "ip", "address");
  return EVIL.filter((value) => state.includes(value));
}

/** Runs a definition with Go multus, and says what became of it. */
async function tryWithGo(
  node: Node,
  observer: Observer,
  attack: Attack,
): Promise<Attack["withGo"]> {
  const { host } = node;
  const pod = node.addPod(attack, "go");
  const evil = listEvil(host);
  let said = "";
  const seen = await observer.observe(async () => {
    const call = {
      command: GO_COMMAND,
      env: { SUBNETS, TRACE: observer.trace },
    };
    const { code, stdout, stderr } = await host.call("ADD", pod, call);
    said = code === 0 || stdout.includes(UNTOLD) ? "" : stdout + stderr;
  });
  const links = host.interfaces(pod).filter((name) => name !== "lo");
  // The node's directories are new for each call, so addresses repeat.
  for (const link of links.filter((name) => name !== "wire0")) {
    runIn(pod.sandbox, "ip", "link", "delete", link);
  }
  const hasChanged = listEvil(host).length > evil.length;
  if (seen.length > 0 || hasChanged) return "done";
  if (said.includes("failed to find plugin")) return "absent";
  if (said !== "") return "refused";
  return attack.key === undefined && links.includes("net1")
    ? "done"
    : "ignored";
}

Deno.test({
  ...onHost(
    "each attack of a definition has its known outcome under Go multus",
    ignoreUnless(
      isExecutable(MULTUS),
      "needs CNI_GO_MULTUS, the directory of Go's multus",
    ),
    ignoreUnless(hasCommand("strace"), "needs strace"),
  ),
  async fn(t): Promise<void> {
    // Go keeps its token from a server without TLS.
    await using node = await Node.start("https");
    using observer = new Observer(node.directory);
    const veth = ["type", "veth", "peer", "wire1"];
    runIn(node.host.hosts.host, "ip", "link", "add", "wire0", ...veth);
    for (const attack of ATTACKS) {
      await t.step(attack.title, async () => {
        const ending = await tryWithGo(node, observer, attack);
        assertEquals(ending, attack.withGo);
      });
    }
  },
});
