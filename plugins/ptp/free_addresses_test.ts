import { assertEquals } from "@std/assert";
import { join } from "@std/path/posix";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn, stockOf } from "../../testing/ip_json.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** A node whose uplink has 10.0.0.5/24, with a router and a neighbour there. */
class NodeScene extends PluginScene {
  constructor(address: string, setUp: readonly string[] = []) {
    super("ptp", () => ({
      cniVersion: "1.1.0",
      name: "net1",
      type: "ptp",
      ipam: { type: "static", addresses: [{ address }] },
    }));
    const other = this.hosts.addNetns();
    runIn(
      this.hosts.host,
      "sh",
      "-ec",
      [
        `ip link add uplink type veth peer name lan netns ${other.path}`,
        "ip addr add 10.0.0.5/24 dev uplink",
        "ip addr add 2001:db8::5/64 dev uplink nodad",
        // Its own address would come some time later, as the carrier does.
        "ip link set uplink addrgenmode none up",
        `nsenter --net=${other.path} ip addr add 10.0.0.7/24 dev lan`,
        `nsenter --net=${other.path} ip link set lan up`,
        "for try in $(seq 3000); do",
        "  ! ip link show uplink | grep -q 'state UP' || break; sleep 0.01",
        "done",
        ...setUp,
      ].join("\n"),
    );
  }
}

rootTest(
  "ptp.add() refuses an address that the host reaches elsewhere",
  async (t) => {
    const rows: [
      name: string,
      address: string,
      setUp: string[],
      refusal: [code: number, text: string],
    ][] = [
      ["the host's", "10.0.0.5/32", [], [7, 'the host has it on "uplink"']],
      [
        "a broadcast address",
        "10.0.0.255/32",
        [],
        [7, 'the host has it on "uplink"'],
      ],
      [
        "the router's",
        "10.0.0.1/32",
        ["ip route add default via 10.0.0.1"],
        [7, "the host has routes through it"],
      ],
      [
        "the router's of another table",
        "10.0.0.1/24",
        ["ip route add 10.9.0.0/16 via 10.0.0.1 table 100"],
        [7, "the host has routes through it"],
      ],
      [
        "one of two routers",
        "2001:db8::1/128",
        [
          "ip route add default nexthop via 2001:db8::2 dev uplink nexthop via 2001:db8::1 dev uplink",
        ],
        [7, "the host has routes through it"],
      ],
      [
        "a neighbour's, which answers",
        "10.0.0.7/32",
        ["ping -c 1 -W 9 10.0.0.7"],
        [11, 'on "uplink"'],
      ],
      [
        "a neighbour's, which is configured",
        "10.0.0.8/32",
        ["ip neigh add 10.0.0.8 lladdr 02:00:00:00:00:08 dev uplink"],
        [11, '02:00:00:00:00:08 on "uplink"'],
      ],
      [
        "with a route of its own",
        "10.9.9.9/32",
        ["ip route add 10.9.9.9 via 10.0.0.1 dev uplink metric 50"],
        [11, 'is in use by "uplink"'],
      ],
      [
        "with a route of its own over a link that is down",
        "10.9.9.9/32",
        [
          "ip link add spare type bridge",
          "ip addr add 10.8.0.1/24 dev spare",
          "ip link set spare up",
          "ip route add 10.9.9.9 via 10.8.0.2",
        ],
        [11, 'is in use by "spare"'],
      ],
      [
        "that the host refuses",
        "10.9.9.9/32",
        ["ip route add blackhole 10.9.9.9"],
        [999, "EEXIST"],
      ],
    ];
    await eachRow(t, rows, async ([, address, setUp, refusal]) => {
      using scene = new NodeScene(address, setUp);
      const before = stockOf(scene.hosts);
      await scene.fail("ADD", refusal);
      assertEquals(stockOf(scene.hosts), before);
    }, ([name]) => name);
  },
);

rootTest(
  "ptp.add() accepts unused addresses of the uplink's subnet",
  async (t) => {
    const rows: [name: string, address: string, setUp: string[]][] = [
      ["unused", "10.0.0.99/24", ["ip route add default via 10.0.0.1"]],
      ["IPv6", "2001:db8::99/64", ["ip route add default via 2001:db8::1"]],
      [
        "a neighbour that has moved here",
        "10.0.0.7/32",
        [
          "ping -c 1 -W 9 10.0.0.7",
          "ip neigh change 10.0.0.7 dev uplink nud stale",
        ],
      ],
      [
        "in a subnet that is dropped otherwise",
        "10.9.9.9/32",
        ["ip route add blackhole 10.9.9.0/24"],
      ],
    ];
    await eachRow(t, rows, async ([, address, setUp]) => {
      using scene = new NodeScene(address, setUp);
      const { json: prevResult } = await scene.succeed("ADD");
      await scene.succeed("CHECK", { prevResult });
      await scene.succeed("DEL", { prevResult });
    }, ([name]) => name);
  },
);

rootTest(
  "ptp.add() refuses the address of a running container",
  async () => {
    using scene = new NodeScene("10.1.2.5/24");
    const sandbox = scene.hosts.addNetns();
    const later = { sandbox, containerId: "later" };
    const { json: prevResult } = await scene.succeed("ADD");
    const before = stockOf(scene.hosts);
    await scene.fail("ADD", [11, "is in use by"], {}, later);
    await scene.fail("ADD", [11, "is in use by"], { name: "net2" }, later);
    assertEquals(stockOf(scene.hosts), before);
    await scene.succeed("CHECK", { prevResult });
    // The runtime deletes after a failed ADD.
    await scene.succeed("DEL", {}, later);
    await scene.succeed("CHECK", { prevResult });
    scene.hosts.sandbox[Symbol.dispose]();
    // The kernel ends a namespace some time after its last user.
    await eventually(
      "the address is free",
      async () => (await scene.run("ADD", {}, later)).exitCode === 0,
    );
  },
);

rootTest(
  "ptp.add() refuses a running container's address after the leases were deleted",
  async () => {
    using scene = new PluginScene("ptp", dualStack);
    const { hosts } = scene;
    const deleteLeases = (): void => {
      Deno.removeSync(join(hosts.directory, "leases/net1"), {
        recursive: true,
      });
    };
    const later = { sandbox: hosts.addNetns(), containerId: "later" };
    await scene.succeed("ADD");
    deleteLeases();
    const before = stockOf(hosts);
    await scene.fail(
      "ADD",
      [11, "10.1.2.2 is in use by"],
      {},
      later,
    );
    assertEquals(stockOf(hosts), before);
    assertEquals(hosts.leases("net1"), []);
    // The address is free as soon as the container no longer has it.
    deleteLeases();
    for (const address of ["10.1.2.2/24", "2001:db8:1::2/64"]) {
      runIn(hosts.sandbox, "ip", "addr", "del", address, "dev", "eth0");
    }
    const { json } = await scene.succeed("ADD", {}, later);
    assertEquals(
      json.ips.map(({ address }: { address: string }) => address),
      ["10.1.2.2/24", "2001:db8:1::2/64"],
    );
  },
);
