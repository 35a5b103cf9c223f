/**
 * What the author of a NetworkAttachmentDefinition can do on a node: through
 * multus, its daemon, the shim and hot plug, all as executables.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../cni/json/json.ts";
import {
  hasCommand,
  ignoreUnless,
  isExecutable,
} from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";
import { type Attack, ATTACKS } from "./_harness/definition_attacks.ts";
import { MultusDaemon } from "./_harness/multus_daemon.ts";
import {
  BIN,
  type HostPod,
  MultusHost,
  onHost,
} from "./_harness/multus_host.ts";
import { GO_MULTUS } from "./_harness/thick_daemon.ts";

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

  static async start(): Promise<Node> {
    const host = await MultusHost.start();
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
          assertEquals(node.host.leftoversOf(pod), [], way);
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

/** Runs a definition with Go multus, and says what became of it. */
async function tryWithGo(
  node: Node,
  observer: Observer,
  attack: Attack,
): Promise<Attack["withGo"]> {
  const { host } = node;
  const pod = node.addPod(attack, "go");
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
  if (seen.length > 0) return "done";
  if (said.includes("failed to find plugin")) return "absent";
  if (said !== "") return "refused";
  return attack.key === undefined && links.includes("net1")
    ? "done"
    : "ignored";
}

Deno.test({
  ...onHost(
    "Go multus leaves it to the plugins what a definition may do",
    ignoreUnless(
      isExecutable(MULTUS),
      "needs CNI_GO_MULTUS, the directory of Go's multus",
    ),
    ignoreUnless(hasCommand("strace"), "needs strace"),
  ),
  async fn(t): Promise<void> {
    await using node = await Node.start();
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

const OUTCOMES: Readonly<Record<Attack["withGo"], string>> = {
  done: "done",
  refused: "refused by the plugin",
  ignored: "without effect",
  absent: "not installed",
};

Deno.test("docs/security.md lists what definitions may try", () => {
  const page = new URL("../docs/security.md", import.meta.url);
  const text = Deno.readTextFileSync(page).replace(/ +/g, " ");
  const byOutcome = Map.groupBy(
    ATTACKS,
    ({ key, withGo }) =>
      `${key === undefined ? "done" : "refused"} | ${OUTCOMES[withGo]}`,
  );
  const rows = [...byOutcome].map(([outcome, attacks]) =>
    `| ${outcome} | ${attacks.map(({ title }) => title).join("; ")} |`
  );
  const missing = rows.filter((row) => !text.includes(row));
  assertEquals(missing, []);
});
