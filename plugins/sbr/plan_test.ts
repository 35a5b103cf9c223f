import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { IP4, IP6, SbrScene } from "./testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  ETH0,
  IPV6,
  type ListedIp,
  NET1,
} from "../../tests/_harness/two_networks.ts";

rootTest("sbr.add() uses the first unused tables", async (t) => {
  const both = [IP4, IP6];
  const rows: [name: string, lines: string[], tables: number[]][] = [
    ["none is used", [], [100, 101]],
    ["by rules", ["rule add from 10.0.0.2 lookup 101"], [100, 102]],
    ["by rules of IPv6", ["-6 rule add from fd00::1 lookup 100"], [101, 102]],
    ["by routes", ["route add 10.9.0.0/16 dev eth0 table 100"], [101, 102]],
    ["by routes of IPv6", ["route add fd00::/64 dev eth0 table 101"], [
      100,
      102,
    ]],
    ["by refusals", ["route add blackhole default table 100"], [101, 102]],
    [
      "by rules with conditions",
      ["rule add from 10.0.0.2 fwmark 7 lookup 100"],
      [101, 102],
    ],
    [
      "all before the kernel's own",
      Array.from(
        { length: 152 },
        (_, index) => `route add blackhole default table ${100 + index}`,
      ),
      [252, 256],
    ],
  ];
  await eachRow(t, rows, async ([, lines, tables]) => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6, ...lines], {
      ips: both,
    });
    const before = scene.state;
    await scene.succeed("ADD");
    const [first, second] = tables;
    const rules = scene.networks.rules();
    assert(
      rules.some((line) => line.endsWith(`192.168.1.209 lookup ${first}`)),
      rules.join(),
    );
    assert(
      rules.some((line) => line.endsWith(`::209 lookup ${second}`)),
      rules.join(),
    );
    await scene.succeed("CHECK");
    await scene.succeed("DEL");
    assertEquals(scene.state, before);
  });
});

rootTest("sbr.add() moves routes of the address family only", async (t) => {
  const { address } = IP4;
  const rows: [
    name: string,
    given: { lines: string[]; ips: readonly ListedIp[] },
    main: string[],
    table: string[],
  ][] = [
    [
      "everything that is said of a route",
      {
        lines: [
          "route add 10.9.0.0/16 via 192.168.1.2 proto 77 metric 7 " +
          "mtu lock 1400 initcwnd 20 src 192.168.1.209",
          "route add 10.8.0.0/16 metric 9 nexthop via 192.168.1.2 weight 3 " +
          "nexthop via 192.0.2.1 dev net1 weight 1 onlink",
        ],
        ips: [{ address }],
      },
      [],
      [
        "10.8.0.0/16 metric 9 nexthop via 192.168.1.2 dev net1 weight 3 " +
        "nexthop via 192.0.2.1 dev net1 weight 1 onlink",
        "10.9.0.0/16 via 192.168.1.2 dev net1 proto 77 src 192.168.1.209 " +
        "metric 7 mtu lock 1400 initcwnd 20",
        "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
        "192.168.2.0/24 via 192.168.1.2 dev net1",
      ],
    ],
    [
      "link-local and multicast ones of IPv6 stay",
      {
        lines: [
          "route add ff05::/16 dev net1",
          "route add fe80:7::/64 dev net1",
          "route add fd00::/64 via fe80::7 dev net1",
        ],
        ips: [{ address: IP6.address }],
      },
      [
        "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
        "192.168.2.0/24 via 192.168.1.2 dev net1",
        "fe80::/64 dev net1 proto kernel metric 256",
        "fe80:7::/64 dev net1 metric 1024",
        "ff05::/16 dev net1 metric 1024",
      ],
      [
        "2001:db8:1::/64 dev net1 proto kernel metric 256",
        "2001:db8:2::/48 via 2001:db8:1::2 dev net1 metric 1024",
        "fd00::/64 via fe80::7 dev net1 metric 1024",
      ],
    ],
    [
      "routes of an address that the result does not list stay",
      {
        lines: [
          "address add 172.16.0.2/24 dev net1",
          "route add 10.9.0.0/16 via 192.168.1.2 src 172.16.0.2",
        ],
        ips: [{ address }],
      },
      ["172.16.0.0/24 dev net1 proto kernel scope link src 172.16.0.2"],
      [
        "10.9.0.0/16 via 192.168.1.2 dev net1 src 172.16.0.2",
        "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
        "192.168.2.0/24 via 192.168.1.2 dev net1",
      ],
    ],
    [
      "what is for the host itself or a refusal stays",
      {
        lines: [
          "route add local 10.7.0.0/24 dev net1 table main",
          "route add blackhole 10.6.0.0/24",
        ],
        ips: [{ address }],
      },
      ["local 10.7.0.0/24 dev net1 scope host"],
      [
        "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
        "192.168.2.0/24 via 192.168.1.2 dev net1",
      ],
    ],
    [
      "of a route over both interfaces a copy, for IPv4 has no parts of one",
      {
        lines: [
          "route add 10.9.0.0/16 nexthop via 10.0.0.5 nexthop via 192.168.1.2",
        ],
        ips: [{ address }],
      },
      [
        "10.9.0.0/16 nexthop via 10.0.0.5 dev eth0 weight 1 " +
        "nexthop via 192.168.1.2 dev net1 weight 1",
      ],
      [
        "10.9.0.0/16 via 192.168.1.2 dev net1",
        "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
        "192.168.2.0/24 via 192.168.1.2 dev net1",
      ],
    ],
    [
      "of a route of IPv6 over both interfaces the interface's part",
      {
        lines: ["route append default via 2001:db8:1::1 dev net1"],
        ips: [{ address: IP6.address }],
      },
      [
        "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
        "192.168.2.0/24 via 192.168.1.2 dev net1",
        "fe80::/64 dev net1 proto kernel metric 256",
      ],
      [
        "2001:db8:1::/64 dev net1 proto kernel metric 256",
        "2001:db8:2::/48 via 2001:db8:1::2 dev net1 metric 1024",
        "default via 2001:db8:1::1 dev net1 metric 1024",
      ],
    ],
  ];
  const isOfIpv4 = (line: string): boolean => !/[0-9a-f]::/.test(line);
  await eachRow(t, rows, async ([, { lines, ips }, main, table]) => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6, ...lines], { ips });
    const isInvolved = ips[0]?.address.includes(":")
      ? (): boolean => true
      : isOfIpv4;
    const before = scene.state;
    await scene.succeed("ADD");
    assertEquals(scene.table("main").filter(isInvolved), main);
    assertEquals(scene.table("100"), table);
    await scene.succeed("ADD");
    assertEquals(scene.table("100"), table, "once more");
    await scene.succeed("CHECK");
    await scene.succeed("DEL", {
      prevResult: {
        ...scene.keys["prevResult"] as Keys,
        routes: [{ dst: "::/0", gw: "2001:db8:1::1" }],
      },
    });
    assertEquals(scene.state, before);
  });
});

rootTest("sbr.add() replaces the rules of an earlier ADD", async (t) => {
  await t.step("for an interface that was created again", async () => {
    using scene = new SbrScene();
    await scene.succeed("ADD");
    const before = scene.state;
    scene.ip(
      "link delete dev net1",
      "link add net1 type veth peer name other",
      "link set net1 up",
      "link set other up",
      ...NET1,
    );
    await scene.succeed("ADD");
    assertEquals(scene.state, before);
  });
  await t.step("with different gateways", async () => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6], {
      ips: [IP4, IP6],
    });
    await scene.succeed("ADD");
    const gateways = ["192.168.1.254", "2001:db8:1::254"];
    await scene.succeed("ADD", { gateways });
    for (
      const [table, gateway] of [["100", gateways[0]], ["101", gateways[1]]]
    ) {
      const found = scene.table(table ?? "")
        .filter((line) => line.startsWith("default"));
      assertEquals(found.length, 1, found.join());
      assertStringIncludes(`${found}`, `via ${gateway} `);
    }
  });
  await t.step("with source hints from the interface's plugin", async () => {
    using scene = new SbrScene([
      ...ETH0,
      "address add 192.168.1.209/24 dev net1 noprefixroute",
      "route add 192.168.1.0/24 dev net1 src 192.168.1.209",
    ], { addSourceHints: true });
    const before = scene.state;
    for (const _attempt of ["ADD", "ADD again"]) {
      await scene.succeed("ADD");
      assertEquals(scene.table("main"), [
        "192.168.1.0/24 dev net1 scope link src 192.168.1.209",
      ]);
      assertEquals(scene.table("100"), [
        "default via 192.168.1.1 dev net1",
        "192.168.1.0/24 dev net1 scope link src 192.168.1.209",
      ]);
    }
    await scene.succeed("DEL");
    assertEquals(scene.state, before);
  });
  await t.step("with source hints of its own", async () => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6], {
      ips: [IP4, IP6],
      addSourceHints: true,
    });
    const before = scene.state;
    await scene.succeed("ADD");
    const once = scene.networks.state();
    assert(
      once.includes("2001:db8:1::/64 dev net1 src 2001:db8:1::209 metric 1024"),
      once.join("\n"),
    );
    await scene.succeed("ADD");
    assertEquals(scene.networks.state(), once);
    await scene.succeed("CHECK");
    await scene.succeed("DEL");
    assertEquals(scene.state, before);
  });
});
