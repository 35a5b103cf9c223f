/**
 * What the author of a NetworkAttachmentDefinition can do on a node: through
 * multus, its daemon, the shim and hot plug, all as executables.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../cni/json.ts";
import { runIn } from "../testing/ip_json.ts";
import { type Attack, ATTACKS } from "./_harness/definition_attacks.ts";
import { MultusDaemon } from "./_harness/multus_daemon.ts";
import {
  BIN,
  type HostPod,
  MultusHost,
  onHost,
} from "./_harness/multus_host.ts";

/** How a call ended: the error, or undefined. */
type Ending = { readonly code: number; readonly msg: string } | undefined;

/** The name of a definition: its place in the table. */
const nameOf = (attack: Attack): string => `attack-${ATTACKS.indexOf(attack)}`;

/** A node with a definition for each row, and a folder of their author. */
class Node implements AsyncDisposable {
  readonly host: MultusHost;
  readonly daemon: MultusDaemon;
  readonly folder: string;

  private constructor(host: MultusHost, daemon: MultusDaemon, folder: string) {
    this.host = host;
    this.daemon = daemon;
    this.folder = folder;
  }

  static async start(): Promise<Node> {
    const host = await MultusHost.start();
    const folder = `${host.hosts.folder}/author`;
    Deno.mkdirSync(folder);
    Deno.writeTextFileSync(
      `${folder}/evil`,
      `#!/bin/sh\ntouch ${folder}/ran\n`,
    );
    Deno.chmodSync(`${folder}/evil`, 0o755);
    Deno.writeTextFileSync(`${folder}/secret`, "topsecret\n");
    for (const attack of ATTACKS) {
      host.api.putNad("default", nameOf(attack), confOf(attack, folder));
    }
    const daemon = await MultusDaemon.start(host);
    return new Node(host, daemon, folder);
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
    const conf = JSON.stringify(confOf(attack, this.folder));
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

  /** Lists what the author's folder has. */
  get seen(): string[] {
    return [...Deno.readDirSync(this.folder)].map(({ name }) => name).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.host[Symbol.asyncDispose]();
  }
}

function confOf(attack: Attack, folder: string): JsonObject {
  return {
    cniVersion: "1.0.0",
    name: nameOf(attack),
    ...attack.conf({ folder }),
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
    const none = `${node.host.hosts.folder}/none`;
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
      });
    }
  },
});

const OUTCOMES: Readonly<Record<Attack["withGo"], string>> = {
  done: "done",
  refused: "refused by the plugin",
  "not run": "not looked at",
};

Deno.test("docs/security.md lists what definitions may try", () => {
  const page = new URL("../docs/security.md", import.meta.url);
  const text = Deno.readTextFileSync(page).replace(/ +/g, " ");
  const rows = ATTACKS.map(({ title, key, withGo }) =>
    `| ${title} | ${key === undefined ? "done" : "refused"} | ${
      OUTCOMES[withGo]
    } |`
  );
  const missing = rows.filter((row) => !text.includes(row));
  assertEquals(missing, []);
});
