// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

/** host-local with a full range, on a node with living and deleted containers. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../../../testing/test_hosts.ts";

function randomId(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toHex();
}

// Other tests of this machine have namespaces, too: no address may be theirs.
const [a, b] = crypto.getRandomValues(new Uint8Array(2));
const NET = `100.64.${a}.`;
const FIRST = (b ?? 0) & 0xf8;

/** Returns an address of the network; the gateway's is the first one. */
function ip(number: number): string {
  return `${NET}${FIRST + number}`;
}

/** A network with four addresses to lease, from the second to the fifth. */
class Node implements Disposable {
  readonly hosts: TestHosts = TestHosts.create();
  readonly ipam = {
    ...this.hosts.hostLocal(),
    ranges: [[{ subnet: `${ip(0)}/29`, rangeEnd: ip(5) }]],
  };

  /** Runs ADD for a container. */
  async add(containerId: string, ips: string[] = []): Promise<CallOutput> {
    return await this.hosts.run("host-local", "ADD", {
      cniVersion: "1.1.0",
      name: "net1",
      ipam: this.ipam,
      runtimeConfig: { ips },
    }, { env: { CNI_CONTAINERID: containerId } });
  }

  /** Lets the next call look again. */
  forgetLook(): void {
    Deno.removeSync(`${this.hosts.directory}/leases/.judged/net1`);
  }

  /** Leases an address to a container, an hour ago unless it is young. */
  async lease(
    address: string,
    containerId: string,
    isYoung = false,
  ): Promise<void> {
    const { exitCode, stdout } = await this.add(containerId, [address]);
    assertEquals(exitCode, 0, stdout);
    const path = `${this.hosts.directory}/leases/net1/${address}`;
    const hourAgo = new Date(Date.now() - 3_600_000);
    if (!isYoung) Deno.utimeSync(path, hourAgo, hourAgo);
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** A namespace with an address, which a program holds. */
class HeldNamespace implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  constructor(address: string, holder: string) {
    this.#child = new Deno.Command("unshare", {
      args: [
        ...["-n", "sh", "-c"],
        `ip addr add ${address}/24 dev lo && echo ready && exec ${holder}`,
      ],
      stdout: "piped",
    }).spawn();
  }

  /** Waits until it has the address. */
  async ready(): Promise<void> {
    const reader = this.#child.stdout.getReader();
    const { value } = await reader.read();
    assertEquals(new TextDecoder().decode(value), "ready\n");
    reader.releaseLock();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.stdout.cancel();
    await this.#child.status;
  }
}

rootTest(
  "host-local reuses addresses of deleted containers if a range is full",
  async () => {
    using node = new Node();
    for (const last of [2, 3, 4, 5]) {
      await node.lease(
        ip(last),
        randomId(),
      );
    }
    const { exitCode, stdout, stderr } = await node.add(randomId());
    assertEquals(exitCode, 0, stdout + stderr);
    assertEquals(node.hosts.leases().length, 1);
    assertStringIncludes(
      stderr,
      "No address is free: released the lease of a deleted container",
    );
    // So does an address that is requested.
    await node.lease(ip(4), randomId());
    node.forgetLook();
    assertEquals((await node.add(randomId(), [ip(4)])).exitCode, 0);
  },
);

rootTest(
  "host-local keeps the leases of possibly running containers in a full range",
  async (t) => {
    using node = new Node();
    const { hosts } = node;
    // Its namespace has a path.
    await node.lease(ip(2), randomId());
    runIn(hosts.sandbox, "ip", "addr", "add", `${ip(2)}/24`, "dev", "lo");
    // How its namespace is held, the steps say.
    await node.lease(ip(3), randomId());
    // A runtime has it, although it has no process: it is checkpointed.
    const checkpointed = randomId();
    await node.lease(ip(4), checkpointed);
    Deno.mkdirSync(`/run/runc/${checkpointed}`, { recursive: true });
    // It was attached a moment ago.
    await node.lease(ip(5), randomId(), true);
    const refuse = async (): Promise<void> => {
      const { exitCode, json } = await node.add(randomId());
      assertEquals([exitCode, json?.["code"]], [1, 11]);
      assertEquals(hosts.leases().length, 4);
      node.forgetLook();
    };
    await t.step("a namespace that only a process keeps alive", async () => {
      await using holder = new HeldNamespace(ip(3), "sleep 100");
      await holder.ready();
      await refuse();
    });
    await t.step("a namespace that only a descriptor keeps alive", async () => {
      await using holder = new HeldNamespace(
        ip(3),
        "nsenter --net=/proc/$PPID/ns/net sleep 100 9< /proc/self/ns/net",
      );
      await holder.ready();
      await refuse();
    });
    await t.step("but not the lease of a deleted namespace", async () => {
      const { exitCode, stdout } = await node.add(randomId());
      assertEquals(exitCode, 0, stdout);
      assertEquals(hosts.leases().length, 4);
    });
    Deno.removeSync(`/run/runc/${checkpointed}`);
  },
);
