/**
 * Many containers at the same time, and plugins that are killed: as on a node
 * that is busy, or ends badly. Run with the compiled executables.
 */

import { assertEquals } from "@std/assert";
import type { NetNs } from "../ffi/netns.ts";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import { Cidr } from "../net/cidr.ts";
import {
  createRandom,
  eachAtOnce,
  howOften,
  type Random,
} from "./_harness/repetition.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import type { ExecOutput } from "../testing/exec_in.ts";
import { needsBin, startPlugin } from "./_harness/executables.ts";
import { findReached, ipJson, linkNames } from "../testing/ip_json.ts";
import { killByTurns } from "./_harness/kills.ts";
import { nftRules } from "./_harness/rules.ts";
import type { Spawned } from "./_harness/spawn_in.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { eachRow } from "./_harness/table.ts";

const needsNft = ignoreUnless(hasCommand("nft"), "needs nft");

const AT_ONCE = 8;
const CONTAINERS = howOften(2 * AT_ONCE);
/** How many operations are killed. */
const KILLS = howOften(12);

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
    outside.link.set(linkIndex, { isUp: true });
    const address = Cidr.parse("192.0.2.2/24");
    outside.address.add({ ifindex: linkIndex, address });
  }

  addContainer(id: string): Container {
    return { id, sandbox: this.hosts.addNetns() };
  }

  start(command: string, { id, sandbox }: Container): Spawned {
    const call = { type: this.#type, command, config: this.#config };
    return startPlugin(this.hosts, call, { sandbox, containerId: id });
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
  remains(): string[] {
    const { host } = this.hosts;
    const links = linkNames(host)
      .filter((name) => !["lo", "out0", "cni0"].includes(name));
    const routes = ipJson(host, "route", "show", "table", "all")
      .filter(({ dev }: { dev: string }) => dev.startsWith("veth"))
      .map(({ dst }: { dst: string }) => dst);
    const elements = nftRules(host, /id: c\d+|CNI-/);
    return [...links, ...routes, ...elements, ...this.hosts.leases()];
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

function shuffle<T>(items: readonly T[], random: Random): T[] {
  return items.map((item) => [random.below(1e9), item] as const)
    .sort(([left], [right]) => left - right).map(([, item]) => item);
}

/** Who masquerades, by plugin: that does not depend on it. */
const BACKENDS = {
  ptp: ["nftables", "iptables"],
  bridge: [undefined, "nftables"],
} as const;

for (const [type, backends] of Object.entries(BACKENDS)) {
  const test = (
    name: string,
    fn: (t: Deno.TestContext) => Promise<void>,
  ): void => rootTest(`${type} ${name}`, allOf(needsNft, needsBin), fn);

  test(`attaches ${CONTAINERS} containers, ${AT_ONCE} at a time, and detaches them in any order`, async (t) => {
    const random = createRandom(1);
    await eachRow(t, backends, async (backend) => {
      using node = new Node(
        type,
        backend === undefined ? {} : { ipMasq: true, ipMasqBackend: backend },
      );
      const containers = Array.from(
        { length: CONTAINERS },
        (_, index) => node.addContainer(`c${index}`),
      );
      const addresses = new Map<Container, string>();
      await eachAtOnce(containers, AT_ONCE, async (container) => {
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
        const all = [...others, ...outside];
        assertEquals(findReached(sandbox, all, 5), all, `c${index}`);
      }
      await eachAtOnce(
        shuffle(containers, random),
        AT_ONCE,
        (container) => node.run("DEL", container),
      );
      assertEquals(node.remains(), []);
    }, (backend) => backend ?? "no masquerade");
  });

  test("DEL leaves nothing after a killed ADD", async (t) => {
    const random = createRandom(2);
    const some = backends.filter((backend) => backend !== undefined);
    await eachRow(t, some, async (backend) => {
      using node = new Node(type, { ipMasq: true, ipMasqBackend: backend });
      const container = node.addContainer("c1");
      await killByTurns({
        start: (command) => node.start(command, container),
        succeed: (command) => node.run(command, container),
        remains: () => node.remains(),
      }, { random, count: KILLS });
      assertEquals(node.remains(), []);
    });
  });
}
