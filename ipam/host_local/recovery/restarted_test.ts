/** host-local and a container that is started again after its DEL was lost. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { importFlags } from "../../../scripts/import_flags.ts";
import { ROOT } from "../../../scripts/project.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { type ToolEnded, ToolHost } from "../../../tests/_harness/tool_host.ts";

const REFUSED = "duplicate allocation is not allowed";
const CACHE = "/var/lib/cni/results";

// Other tests of this machine have namespaces, too: no address may be theirs.
const [a, b] = crypto.getRandomValues(new Uint8Array(2));
const NET = `100.64.${a}.`;
const FIRST = (b ?? 0) & 0xf8;

// Other mount namespaces must not have a namespace of this name.
const NAME = `again-${crypto.randomUUID()}`;
const BLUE = `/run/netns/${NAME}`, LINK = `/run/links/${NAME}`;

function ip(number: number): string {
  return `${NET}${FIRST + number}`;
}

/** Returns a script that runs a plugin of this project from its source. */
async function sourceOf(type: string): Promise<string> {
  const code = 'import { runMain } from "./cni/skel.ts";' +
    'import { findPlugin } from "./plugins/registry.ts";' +
    `runMain(await findPlugin("${type}"));`;
  const command = [Deno.execPath(), "eval", ...await importFlags()].join(" ");
  return `cd ${ROOT}; exec ${command} '${code}'`;
}

/** A node with a container that was attached an hour ago. */
class Node implements AsyncDisposable {
  readonly id = crypto.getRandomValues(new Uint8Array(32)).toHex();
  readonly host: ToolHost;

  private constructor(host: ToolHost) {
    this.host = host;
  }

  /** @param type host-local alone stands for a device that a program drives */
  static async create(type: string, netns: string): Promise<Node> {
    const host = await ToolHost.create();
    host.addPlugin("own-plugin", await sourceOf(type));
    host.addPlugin("own-ipam", await sourceOf("host-local"));
    const node = new Node(host);
    host.addNetwork("pods", [node.#plugin]);
    await host.sh(
      `ip netns add ${NAME}; mkdir /run/links; ln -s ${BLUE} ${LINK}`,
    );
    await host.succeed(`add pods ${netns} --container-id ${node.id}`);
    await node.age("1 hour ago");
    return node;
  }

  get #plugin(): object {
    const ipam = { ...this.host.hostLocal(`${ip(0)}/29`), type: "own-ipam" };
    return { type: "own-plugin", ipam };
  }

  /** Deletes the container's namespace, and creates a new namespace of that name. */
  async restart(): Promise<void> {
    await this.host.sh(`ip netns del ${NAME}; ip netns add ${NAME}`);
  }

  /** Changes when the leases were written. */
  async age(when: string): Promise<void> {
    await this.host.sh(`touch -d '${when}' /run/leases/pods/${NET}*`);
  }

  /** Runs the plugin, as a runtime does that has another cache. */
  async add(netns: string, more: JsonObject = {}): Promise<ToolEnded> {
    const config = {
      cniVersion: "1.1.0",
      name: "pods",
      ...this.#plugin,
      ...more,
    };
    const call = [
      "CNI_COMMAND=ADD",
      `CNI_CONTAINERID=${this.id}`,
      `CNI_NETNS=${netns}`,
      "CNI_IFNAME=eth0",
    ];
    const script = 'printf %s "$1" | PATH="$CNI_PATH:$PATH" "$0"';
    const words = ["sh", "-c", script, "own-plugin", JSON.stringify(config)];
    return await this.host.run(["env", ...call, ...words]);
  }

  async succeed(netns: string, more?: JsonObject): Promise<string> {
    const { code, stdout, stderr } = await this.add(netns, more);
    assertEquals(code, 0, stdout + stderr);
    return stderr;
  }

  async refuse(netns: string): Promise<void> {
    const before = await this.leases();
    const { stdout } = await this.add(netns);
    assertStringIncludes(stdout, REFUSED);
    assertEquals(await this.leases(), before);
  }

  async leases(): Promise<string> {
    return await this.host.sh("cd /run/leases/pods; ls -l --full-time 1*");
  }

  async addresses(): Promise<string> {
    return (await this.host.sh("cd /run/leases/pods; ls 1*")).trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

rootTest("ADD leases a restarted container's address", async (t) => {
  await t.step("in a new namespace, known to its runtime", async () => {
    await using node = await Node.create("ptp", BLUE);
    await node.host.sh(`ip netns del ${NAME}; mkdir -p /run/runc/${node.id}`);
    await node.host.sh("ip netns add green");
    const log = await node.succeed("/run/netns/green");
    assertStringIncludes(log, "The container was started again without DEL");
    assertEquals(await node.addresses(), ip(2));
  });
  await t.step("with a requested address instead", async () => {
    await using node = await Node.create("ptp", BLUE);
    await node.restart();
    await node.succeed(BLUE, { runtimeConfig: { ips: [ip(4)] } });
    assertEquals(await node.addresses(), ip(4));
  });
});

// tap makes its link before it leases an address.
for (const type of ["ptp", "tap"]) {
  rootTest(
    `${type}: a container restarts in a new namespace of the same name`,
    async () => {
      await using node = await Node.create(type, BLUE);
      await node.restart();
      await node.succeed(BLUE);
      assertEquals(await node.addresses(), ip(2));
    },
  );
}

rootTest("host-local refuses a second ADD of an attachment", async (t) => {
  await t.step("while the namespace of its lease exists", async () => {
    await using node = await Node.create("host-local", BLUE);
    // Its namespace is older than its lease.
    await node.age("1 hour");
    await node.refuse(BLUE);
    await node.host.sh("ip netns add green");
    await node.refuse("/run/netns/green");
  });
  await t.step("if CNI_NETNS is a symbolic link to its namespace", async () => {
    await using node = await Node.create("host-local", LINK);
    await node.refuse(LINK);
    await node.refuse(BLUE);
  });
  await t.step("while a namespace has the leased address", async () => {
    await using node = await Node.create("ptp", BLUE);
    await node.restart();
    await node.host.sh(
      `ip netns add green; ip -n green addr add ${ip(2)}/24 dev lo`,
    );
    await node.refuse(BLUE);
  });
  await t.step("without a cached attachment", async () => {
    await using node = await Node.create("ptp", BLUE);
    await node.restart();
    await node.host.sh(`rm ${CACHE}/*`);
    await node.refuse(BLUE);
  });
  await t.step("if the lease is a moment old", async () => {
    await using node = await Node.create("ptp", BLUE);
    await node.age("now");
    await node.restart();
    await node.refuse(BLUE);
  });
});
