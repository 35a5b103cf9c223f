import { assert, assertEquals, assertExists } from "@std/assert";
import { NetlinkSocket } from "../../../ffi/netlink/socket.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { intercept } from "../../../testing/fault_injector.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../../../testing/test_hosts.ts";
import { needsLinks } from "../../../tests/_harness/link_kinds.ts";

/** A node with a directory of the containers' namespaces. */
class Node implements Disposable {
  readonly hosts = TestHosts.create();
  readonly #keys: (number: number) => Readonly<Record<string, unknown>>;
  readonly #type: string;
  readonly #containers = new Map<number, NetNs>();

  constructor(
    type: string,
    keys: (number: number) => Readonly<Record<string, unknown>>,
  ) {
    this.#type = type;
    this.#keys = keys;
    Deno.mkdirSync(`${this.hosts.directory}/netns`);
    const { host } = this.hosts;
    runIn(host, "ip", "link", "add", "up0", "type", "veth", "peer", "up1");
    runIn(host, "ip", "link", "set", "up0", "up");
    runIn(host, "ip", "link", "set", "up1", "up");
  }

  async run(
    command: string,
    number: number,
    keys: Readonly<Record<string, unknown>> = {},
  ): Promise<CallOutput> {
    const netns = `${this.hosts.directory}/netns/c${number}`;
    if (command === "ADD") {
      const container = this.hosts.addNetns();
      this.#containers.set(number, container);
      Deno.symlinkSync(container.path, netns);
    }
    return await this.hosts.run(this.#type, command, {
      cniVersion: "1.1.0",
      name: "net1",
      type: this.#type,
      ipam: this.hosts.hostLocal("10.1.2.0/24", "2001:db8::/64"),
      ...this.#keys(number),
      ...keys,
    }, { containerId: `c${number}`, env: { CNI_NETNS: netns } });
  }

  async succeed(
    command: string,
    number: number,
    keys: Readonly<Record<string, unknown>> = {},
  ): Promise<CallOutput["json"]> {
    const { exitCode, stdout, json } = await this.run(command, number, keys);
    assertEquals(exitCode, 0, stdout);
    return json;
  }

  netnsOf(number: number): NetNs {
    const container = this.#containers.get(number);
    assertExists(container);
    return container;
  }

  /** Deletes all leases. */
  wipe(): void {
    Deno.removeSync(`${this.hosts.directory}/leases`, { recursive: true });
  }

  ownerOf(address: string): string {
    const path = `${this.hosts.directory}/leases/net1/${address}`;
    return Deno.readTextFileSync(path);
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

const PLUGINS: Readonly<
  Record<string, (number: number) => Readonly<Record<string, unknown>>>
> = {
  bridge: () => ({ bridge: "lost0", isGateway: true }),
  ptp: () => ({}),
  macvlan: () => ({ master: "up0" }),
  ipvlan: () => ({ master: "up0" }),
  vlan: (number) => ({ master: "up0", vlanId: 5 + number }),
  dummy: () => ({}),
  tap: () => ({}),
};

for (const [type, keys] of Object.entries(PLUGINS)) {
  rootTest(
    `${type}: running containers keep their addresses when all leases are deleted`,
    needsLinks(type),
    async () => {
      using node = new Node(type, keys);
      const prevResult = await node.succeed("ADD", 1);
      await node.succeed("ADD", 2);
      node.wipe();
      const { ips } = await node.succeed("ADD", 3);
      assertEquals(
        ips.map(({ address }: { address: string }) => address),
        ["10.1.2.4/24", "2001:db8::4/64"],
      );
      assertEquals(node.hosts.leases(), [
        ...["10.1.2.2", "10.1.2.3", "10.1.2.4"],
        ...["2001:db8::2", "2001:db8::3", "2001:db8::4"],
      ]);
      assertEquals(node.ownerOf("10.1.2.3"), "c2\r\neth0");
      await node.succeed("CHECK", 1, { prevResult });
      await node.succeed("DEL", 1, { prevResult });
      assertEquals(node.hosts.leases().includes("10.1.2.2"), false);
      await node.succeed("DEL", 2);
      await node.succeed("DEL", 3);
      assertEquals(node.hosts.leases(), []);
    },
  );
}

rootTest(
  "host-local continues a killed restoration of the leases",
  async () => {
    using node = new Node("ptp", () => ({}));
    await node.succeed("ADD", 1);
    await node.succeed("ADD", 2);
    node.wipe();
    const directory = `${node.hosts.directory}/leases/net1`;
    await Deno.mkdir(directory, { recursive: true });
    await Deno.writeTextFile(`${directory}/10.1.2.2`, "c1\r\neth0");
    await node.succeed("ADD", 3);
    assertEquals(node.ownerOf("10.1.2.3"), "c2\r\neth0");
    assertEquals(node.ownerOf("10.1.2.4"), "c3\r\neth0");
  },
);

rootTest(
  "host-local restores no address of a different network as a lease",
  async () => {
    using node = new Node("bridge", (number) => ({
      bridge: `lost${number}`,
      name: `net${number}`,
    }));
    for (const number of [1, 2]) {
      const { ips: [{ address }] } = await node.succeed("ADD", number);
      assertEquals(address, "10.1.2.2/24");
    }
  },
);

rootTest(
  "host-local holds the lock while it searches for running containers",
  async () => {
    using node = new Node("ptp", () => ({}));
    await node.succeed("ADD", 1);
    node.wipe();
    const { directory } = node.hosts;
    const lock = `${directory}/leases/net1/lock`;
    const isHeld: boolean[] = [];
    const restore = intercept(NetlinkSocket.prototype, "dump", (_, work) => {
      const flock = new Deno.Command("flock", { args: ["-n", lock, "true"] });
      isHeld.push(flock.outputSync().code === 1);
      return work();
    });
    try {
      await node.hosts.run("host-local", "ADD", {
        cniVersion: "1.1.0",
        name: "net1",
        ipam: node.hosts.hostLocal("10.1.2.0/24"),
      }, { containerId: "c2", env: { CNI_NETNS: `${directory}/netns/c1` } });
    } finally {
      restore();
    }
    assertEquals(new Set(isHeld), new Set([true]));
    assertEquals(node.ownerOf("10.1.2.2"), "c1\r\neth0");
  },
);

rootTest(
  "host-local lets other calls run while it searches for running containers",
  async () => {
    using node = new Node("ptp", () => ({}));
    for (const number of [1, 2, 3]) await node.succeed("ADD", number);
    node.wipe();
    const { directory } = node.hosts;
    let turns = 0;
    const turnsAt: number[] = [];
    const restore = intercept(NetlinkSocket.prototype, "dump", (_, work) => {
      turnsAt.push(turns);
      // As on a slow node.
      const endMs = performance.now() + 60;
      while (performance.now() < endMs);
      return work();
    });
    const timer = setInterval(() => turns++, 1);
    try {
      await node.hosts.run("host-local", "ADD", {
        cniVersion: "1.1.0",
        name: "net1",
        ipam: node.hosts.hostLocal("10.1.2.0/24"),
      }, { containerId: "c4", env: { CNI_NETNS: `${directory}/netns/c1` } });
    } finally {
      clearInterval(timer);
      restore();
    }
    // The links and routes of the host and of three namespaces.
    assert(new Set(turnsAt).size >= 4, `${turnsAt}`);
    assertEquals(node.ownerOf("10.1.2.4"), "c3\r\neth0");
  },
);

rootTest(
  "host-local restores one claimed address of a container with forged links",
  async () => {
    using node = new Node("ptp", () => ({}));
    await node.succeed("ADD", 1);
    const container = node.netnsOf(1);
    for (const number of [1, 2, 3]) {
      const name = `fake${number}`;
      runIn(container, "ip", "tuntap", "add", name, "mode", "tap");
      const alias = `cni/net1/x${number}/eth0`;
      runIn(container, "ip", "link", "set", name, "alias", alias);
      for (let last = 0; last < 5; last++) {
        const address = `10.1.2.${number * 10 + last}/24`;
        runIn(container, "ip", "address", "add", address, "dev", name);
      }
    }
    node.wipe();
    await node.succeed("ADD", 2);
    // The container's own address, an address that it claims, and the new address.
    assertEquals(
      node.hosts.leases().filter((ip) => ip.startsWith("10.")),
      ["10.1.2.10", "10.1.2.2", "10.1.2.3"],
    );
  },
);

rootTest(
  "host-local restores the addresses that the host routes to a container",
  async () => {
    using node = new Node("ptp", () => ({}));
    await node.succeed("ADD", 1);
    await node.succeed("ADD", 2);
    const container = node.netnsOf(1);
    const dev = ["dev", "eth0"];
    runIn(container, "ip", "address", "del", "10.1.2.2/24", ...dev);
    runIn(container, "ip", "address", "add", "10.1.2.3/24", ...dev);
    runIn(container, "ip", "address", "add", "10.1.2.9/24", ...dev);
    node.wipe();
    await node.succeed("ADD", 3);
    assertEquals(node.ownerOf("10.1.2.2"), "c1\r\neth0");
    assertEquals(node.ownerOf("10.1.2.3"), "c2\r\neth0");
    assertEquals(node.ownerOf("10.1.2.4"), "c3\r\neth0");
  },
);
