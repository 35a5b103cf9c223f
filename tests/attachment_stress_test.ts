/**
 * Many containers at once, and plugins that are killed: as on a node that is
 * busy, or ends badly. Run with the compiled executables.
 */

import { assertEquals } from "@std/assert";
import type { NetNs } from "../ffi/netns.ts";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import { Cidr } from "../net/cidr.ts";
import {
  hasCommand,
  ignoreUnless,
  requireRoot,
} from "./_harness/capabilities.ts";
import type { ExecOutput } from "./_harness/exec_in.ts";
import { ipJson, runIn } from "./_harness/ip_json.ts";
import { createRandom, type Random } from "./_harness/random.ts";
import { type Spawned, spawnIn } from "./_harness/spawn_in.ts";
import { TestHosts } from "./_harness/test_hosts.ts";

const BIN = Deno.env.get("CNI_BIN") ?? "";
const needs = ignoreUnless(
  BIN !== "" && hasCommand("nft"),
  "needs nft, and CNI_BIN as `deno task test` sets it",
);

const CONTAINERS = 60;
const AT_ONCE = 8;
/** How many operations are killed. */
const KILLS = 40;
/** Longer than any of them takes on a busy machine, in ms. */
const LONGEST_MS = 60;

/** A container on the node. */
interface Container {
  readonly id: string;
  readonly sandbox: NetNs;
}

/** A node with something beyond it, which has no way back to the containers. */
class Node implements Disposable {
  readonly #type: string;
  readonly hosts = TestHosts.create();
  readonly outside: NetNs = this.hosts.addNetns();
  readonly #config: Record<string, unknown>;

  constructor(type: string, extras: Record<string, unknown>) {
    this.#type = type;
    this.#config = {
      cniVersion: "1.1.0",
      name: "net1",
      type,
      // Of a bridge: its address is the gateway's.
      isGateway: true,
      ipam: {
        ...this.hosts.hostLocal("10.1.2.0/24"),
        routes: [{ dst: "0.0.0.0/0" }],
      },
      ...extras,
    };
    using host = Rtnl.open(this.hosts.host.path);
    using outside = Rtnl.open(this.outside.path);
    const { index, linkIndex = 0 } = host.link.addVeth({
      name: "out0",
      peer: { netns: outside.netns, name: "eth0" },
    });
    host.address.add({ ifindex: index, address: Cidr.parse("192.0.2.1/24") });
    outside.link.setUp(linkIndex);
    const address = Cidr.parse("192.0.2.2/24");
    outside.address.add({ ifindex: linkIndex, address });
  }

  addContainer(id: string): Container {
    return { id, sandbox: this.hosts.addNetns() };
  }

  start(command: string, { id, sandbox }: Container): Spawned {
    const env = {
      ...this.hosts.environment(command, { sandbox, containerId: id }),
      CNI_PATH: BIN,
      PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
    };
    const stdin = JSON.stringify(this.#config);
    return spawnIn(this.hosts.host, {
      path: `${BIN}/${this.#type}`,
      env,
      stdin,
    });
  }

  async run(command: string, container: Container): Promise<ExecOutput> {
    const output = await this.start(command, container).output;
    assertEquals(output.code, 0, output.stdout + output.stderr);
    return output;
  }

  /**
   * What is there of any container: links, host routes, leases, rules. A bridge
   * with its address is everybody's, and stays.
   */
  leftovers(): string[] {
    const { host } = this.hosts;
    const links = ipJson(host, "link")
      .map(({ ifname }: { ifname: string }) => ifname)
      .filter((name: string) => !["lo", "out0", "cni0"].includes(name));
    const routes = ipJson(host, "route", "show", "table", "all")
      .filter(({ dev }: { dev: string }) => dev.startsWith("veth"))
      .map(({ dst }: { dst: string }) => dst);
    const elements = runIn(host, "nft", "list", "ruleset").split("\n")
      .filter((line) => /id: c\d+|CNI-/.test(line));
    return [...links, ...routes, ...elements, ...this.hosts.leases()];
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Does something with all of them, a few at a time. */
async function eachAtOnce<T>(
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const left = [...items];
  const worker = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) {
      await work(item);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

function shuffle<T>(items: readonly T[], random: Random): T[] {
  return items.map((item) => [random.below(1e9), item] as const)
    .sort(([left], [right]) => left - right).map(([, item]) => item);
}

/** Pings several addresses from a namespace, side by side; lists the deaf ones. */
function findUnreached(netns: NetNs, addresses: readonly string[]): string[] {
  const pings = addresses.map((address) =>
    `(ping -c1 -W5 ${address} > /dev/null || echo ${address}) &`
  );
  return runIn(netns, "sh", "-c", `${pings.join("\n")}\nwait`)
    .split("\n").filter(Boolean);
}

function test(name: string, fn: (t: Deno.TestContext) => Promise<void>): void {
  const root = requireRoot(name + needs.suffix);
  Deno.test({ name: root.name, ignore: root.ignore || needs.ignore, fn });
}

for (const type of ["ptp", "bridge"]) {
  test(`${type} attaches 60 containers, 8 at a time, and detaches them in any order`, async (t) => {
    const random = createRandom(1);
    for (const backend of [undefined, "nftables", "iptables"]) {
      await t.step(backend ?? "no masquerade", async () => {
        using node = new Node(
          type,
          backend === undefined ? {} : { ipMasq: true, ipMasqBackend: backend },
        );
        const containers = Array.from(
          { length: CONTAINERS },
          (_, index) => node.addContainer(`c${index}`),
        );
        const addresses = new Map<Container, string>();
        await eachAtOnce(containers, async (container) => {
          const { stdout } = await node.run("ADD", container);
          const [address] = JSON.parse(stdout).ips[0].address.split("/");
          addresses.set(container, address);
        });
        assertEquals(new Set(addresses.values()).size, CONTAINERS);
        const outside = backend === undefined ? [] : ["192.0.2.2"];
        for (const [index, { sandbox }] of containers.entries()) {
          const others = [1, 7].map((step) =>
            addresses.get(
              containers[(index + step) % CONTAINERS] as Container,
            ) ?? ""
          );
          assertEquals(
            findUnreached(sandbox, [...others, ...outside]),
            [],
            `c${index}`,
          );
        }
        await eachAtOnce(
          shuffle(containers, random),
          (container) => node.run("DEL", container),
        );
        assertEquals(node.leftovers(), []);
      });
    }
  });

  test(`${type} leaves nothing when it is killed and DEL follows`, async (t) => {
    const random = createRandom(2);
    for (const backend of ["nftables", "iptables"]) {
      await t.step(backend, async () => {
        using node = new Node(type, { ipMasq: true, ipMasqBackend: backend });
        const container = node.addContainer("c1");
        for (let kill = 0; kill < KILLS; kill++) {
          const command = kill % 2 === 0 ? "ADD" : "DEL";
          if (command === "DEL") await node.run("ADD", container);
          const killed = node.start(command, container);
          await new Promise((resolve) =>
            setTimeout(resolve, random.below(LONGEST_MS))
          );
          killed.kill();
          await killed.output;
          await node.run("DEL", container);
          assertEquals(node.leftovers(), [], `${command} ${kill}`);
        }
      });
    }
  });
}
