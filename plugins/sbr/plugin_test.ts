// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { SyscallError } from "../../ffi/errno.ts";
import { FileLock } from "../../ffi/file_lock.ts";
import {
  hasCommand,
  ignoreUnless,
  requireRoot,
} from "../../tests/_harness/capabilities.ts";
import type { CallOutput } from "../../tests/_harness/test_hosts.ts";
import {
  ETH0,
  IPV6,
  type ListedIp,
  NET1,
  TwoNetworks,
} from "../../tests/_harness/two_networks.ts";

type Keys = Readonly<Record<string, unknown>>;

const RULE = "32765: from 192.168.1.209 lookup 100";
const IP4 = { address: "192.168.1.209/24", gateway: "192.168.1.1" };
const IP6 = { address: "2001:db8:1::209/64", gateway: "2001:db8:1::1" };

function assertSuccess({ exitCode, stdout, stderr }: CallOutput): void {
  assertEquals({ exitCode, stderr }, { exitCode: 0, stderr: "" }, stdout);
}

function assertFailure(output: CallOutput, code: number, text: string): void {
  assertEquals(output.exitCode, 1, output.stdout);
  assertEquals(output.json.code, code, output.stdout);
  assertStringIncludes(`${output.json.msg}; ${output.json.details}`, text);
}

/** A container whose net1 sbr is called for. */
class Fixture implements Disposable {
  readonly networks: TwoNetworks;
  readonly keys: Keys;

  constructor(
    lines: readonly string[] = [...ETH0, ...NET1],
    { ips, ...extras }: Keys & { readonly ips?: readonly ListedIp[] } = {},
  ) {
    this.networks = new TwoNetworks(lines);
    this.keys = { prevResult: this.networks.result(ips), ...extras };
  }

  /** Runs a command, with more keys or other ones. */
  run(command: string, extras: Keys = {}): Promise<CallOutput> {
    return this.networks.run("sbr", command, { ...this.keys, ...extras });
  }

  async succeed(command: string, extras: Keys = {}): Promise<void> {
    assertSuccess(await this.run(command, extras));
  }

  ip(...lines: readonly string[]): void {
    this.networks.ip(...lines);
  }

  /** Lists the routes of a table, without its name; of those only that lead over net1 for main. */
  table(name: string): string[] {
    const isMain = name === "main";
    return this.networks.routes()
      .filter((line) =>
        isMain
          ? / net1/.test(line) && !/ table /.test(line)
          : line.includes(` table ${name}`)
      ).map((line) => line.replace(` table ${name}`, ""));
  }

  [Symbol.dispose](): void {
    this.networks[Symbol.dispose]();
  }
}

Deno.test(
  requireRoot("sbr.add() hands prevResult on as it is"),
  async (t) => {
    const lists = {
      interfaces: [{ name: "net1", sandbox: "/x", custom: 1 }],
      ips: [{ ...IP4, interface: 0, custom: [2] }],
      routes: [{ dst: "10.0.0.0/8", custom: "3" }],
      custom: { deeply: null },
    };
    const rows: [
      name: string,
      cniVersion: string,
      given: Keys,
      answer: Keys,
    ][] = [
      ["unknown keys", "1.1.0", { cniVersion: "1.1.0", ...lists }, {
        cniVersion: "1.1.0",
        ...lists,
      }],
      ["no cniVersion", "1.0.0", lists, { cniVersion: "1.0.0", ...lists }],
      ["an empty cniVersion", "0.4.0", { cniVersion: "", ips: [IP4] }, {
        cniVersion: "0.4.0",
        ips: [{ version: "4", ...IP4 }],
        dns: {},
      }],
      ["another version of the family", "1.1.0", {
        cniVersion: "1.0.0",
        ips: [IP4],
      }, { cniVersion: "1.1.0", ips: [IP4] }],
      ["0.2.0", "0.2.0", { ip4: { ip: IP4.address, gateway: IP4.gateway } }, {
        cniVersion: "0.2.0",
        ip4: { ip: IP4.address, gateway: IP4.gateway },
        dns: {},
      }],
    ];
    for (const [name, cniVersion, prevResult, answer] of rows) {
      await t.step(name, async () => {
        using fixture = new Fixture();
        const added = await fixture.run("ADD", { cniVersion, prevResult });
        assertSuccess(added);
        assertEquals(added.json, answer);
        assertEquals(fixture.networks.rules(), [RULE]);
        await fixture.succeed("DEL", { cniVersion, prevResult });
      });
    }
  },
);

Deno.test(
  requireRoot("sbr.add() refuses what it cannot do, and changes nothing"),
  async (t) => {
    const rows: [name: string, keys: Keys, code: number, text: string][] = [
      [
        "no prevResult",
        { prevResult: undefined },
        7,
        "This plugin must be called as chained plugin",
      ],
      [
        "a prevResult of another family",
        {
          prevResult: { cniVersion: "0.4.0", ips: [IP4] },
        },
        1,
        "could not parse prevResult",
      ],
      ["a prevResult that is none", { prevResult: { ips: [{}] } }, 7, "ips"],
      [
        "no address",
        { prevResult: { ips: [] } },
        7,
        "No IP addresses supplied on interface: net1",
      ],
      [
        "addresses of another interface",
        {
          prevResult: {
            interfaces: [{ name: "eth0" }],
            ips: [{ ...IP4, interface: 0 }],
          },
        },
        7,
        "No IP addresses supplied on interface: net1",
      ],
      [
        "a link-local address",
        { prevResult: { ips: [{ address: "fe80::209/64" }] } },
        7,
        "No IP addresses supplied on interface: net1",
      ],
      [
        "a gateway out of reach",
        { gateways: ["198.51.100.1"] },
        999,
        "Cannot add route 0.0.0.0/0 via 198.51.100.1 of table 100",
      ],
      [
        "three gateways",
        { gateways: ["192.168.1.1", "fd00::1", "fd00::2"] },
        7,
        "gateways list cannot contain more than 2 entries (one IPv4, one IPv6)",
      ],
      [
        "two gateways of IPv6",
        { gateways: ["fd00::1", "fd00::2"] },
        7,
        "gateways list contains multiple IPv6 addresses: fd00::1 and fd00::2",
      ],
      [
        "a gateway that is none",
        { gateways: ["gw"] },
        7,
        "invalid static gateway IP address: gw",
      ],
      [
        "a gateway with a prefix length",
        { gateways: ["192.168.1.1/24"] },
        7,
        "invalid static gateway IP address: 192.168.1.1/24",
      ],
      [
        "gateways that are no list",
        { gateways: "192.168.1.1" },
        7,
        "gateways: expected an array",
      ],
      ["no table", { table: 0 }, 7, "table: expected at least 1, got 0"],
      [
        "a table beyond all",
        { table: 2 ** 32 },
        7,
        "table: expected at most 4294967295",
      ],
      ["a table in words", { table: "100" }, 7, "table: expected a number"],
      [
        "hints in words",
        { addSourceHints: "yes" },
        7,
        "addSourceHints: expected a boolean",
      ],
    ];
    for (const [name, keys, code, text] of rows) {
      await t.step(name, async () => {
        using fixture = new Fixture();
        const before = fixture.networks.state();
        assertFailure(await fixture.run("ADD", keys), code, text);
        assertEquals(fixture.networks.state(), before);
        await fixture.succeed("DEL", keys).catch((error) => {
          // Only the warning about what it does without.
          assertStringIncludes(String(error), "Ignoring");
        });
        assertEquals(fixture.networks.state(), before);
      });
    }
    await t.step("an interface that is not there", async () => {
      using fixture = new Fixture();
      fixture.ip("link delete dev net1");
      const before = fixture.networks.state();
      const text = "Cannot find network interface net1";
      assertFailure(await fixture.run("ADD"), 999, text);
      assertEquals(fixture.networks.state(), before);
    });
    await t.step("the host's own namespace", async () => {
      using fixture = new Fixture();
      const { host } = fixture.networks.hosts;
      const env = { CNI_NETNS: host.path };
      const { networks, keys } = fixture;
      assertFailure(await networks.run("sbr", "ADD", keys, env), 8, "");
      assertFailure(await networks.run("sbr", "DEL", keys, env), 8, "");
    });
  },
);

Deno.test(
  requireRoot("sbr.add() takes the first tables that nothing uses"),
  async (t) => {
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
    for (const [name, lines, tables] of rows) {
      await t.step(name, async () => {
        using fixture = new Fixture([...ETH0, ...NET1, ...IPV6, ...lines], {
          ips: both,
        });
        const before = fixture.networks.state().sort();
        await fixture.succeed("ADD");
        const [first, second] = tables;
        const rules = fixture.networks.rules();
        assert(
          rules.some((line) => line.endsWith(`192.168.1.209 lookup ${first}`)),
          rules.join(),
        );
        assert(
          rules.some((line) => line.endsWith(`::209 lookup ${second}`)),
          rules.join(),
        );
        await fixture.succeed("CHECK");
        await fixture.succeed("DEL");
        assertEquals(fixture.networks.state().sort(), before);
      });
    }
  },
);

/** What net1 has in table main, and what its address's table has afterwards. */
const DEFAULTS: [
  name: string,
  given: { lines: string[]; keys: Keys & { ips: readonly ListedIp[] } },
  defaults: string[],
][] = [
  ["the address's gateway", { lines: [], keys: { ips: [IP4] } }, [
    "default via 192.168.1.1 dev net1",
  ]],
  ["none", { lines: [], keys: { ips: [{ address: IP4.address }] } }, []],
  ["the interface's own", {
    lines: ["route add default via 192.168.1.7 dev net1 metric 5"],
    keys: { ips: [{ address: IP4.address }] },
  }, ["default via 192.168.1.7 dev net1 metric 5"]],
  ["the interface's own instead of the address's gateway", {
    lines: ["route replace default via 192.168.1.7 dev net1"],
    keys: { ips: [IP4] },
  }, ["default via 192.168.1.7 dev net1"]],
  ["the interface's own behind the address's gateway", {
    lines: ["route add default via 192.168.1.7 dev net1 metric 5"],
    keys: { ips: [IP4] },
  }, [
    "default via 192.168.1.1 dev net1",
    "default via 192.168.1.7 dev net1 metric 5",
  ]],
  ["gateways instead of all others", {
    lines: ["route add default via 192.168.1.7 dev net1 metric 5"],
    keys: { ips: [IP4], gateways: ["192.168.1.254"] },
  }, ["default via 192.168.1.254 dev net1"]],
  ["gateways of the other family", {
    lines: [],
    keys: { ips: [IP4], gateways: ["2001:db8:1::254"] },
  }, ["default via 192.168.1.1 dev net1"]],
  ["one that does not leave through a router", {
    lines: ["route add default dev net1 scope link metric 5"],
    keys: { ips: [{ address: IP4.address }] },
  }, ["default dev net1 scope link metric 5"]],
  ["one through a router that nothing else says is on the link", {
    lines: ["route add default via 192.0.2.1 dev net1 onlink metric 5"],
    keys: { ips: [{ address: IP4.address }] },
  }, ["default via 192.0.2.1 dev net1 metric 5 onlink"]],
  ["such a router as the address's gateway", {
    lines: ["route add default via 192.0.2.1 dev net1 onlink metric 5"],
    keys: { ips: [{ address: IP4.address, gateway: "192.0.2.1" }] },
  }, [
    "default via 192.0.2.1 dev net1 onlink",
    "default via 192.0.2.1 dev net1 metric 5 onlink",
  ]],
  ["IPv6", { lines: [], keys: { ips: [IP6] } }, [
    "default via 2001:db8:1::1 dev net1 metric 1024",
  ]],
  ["IPv6 through a link-local router", {
    lines: ["route add default via fe80::9 dev net1 metric 7"],
    keys: { ips: [{ address: IP6.address }] },
  }, ["default via fe80::9 dev net1 metric 7"]],
  ["IPv6 through a router that has advertised itself", {
    lines: ["route add default via fe80::9 dev net1 metric 7 proto ra"],
    keys: { ips: [{ address: IP6.address }] },
  }, ["default via fe80::9 dev net1 proto ra metric 7"]],
  ["IPv6 by gateways, link-local", {
    lines: ["route add default via 2001:db8:1::7 dev net1 metric 7"],
    keys: { ips: [IP6], gateways: ["fe80::9"] },
  }, ["default via fe80::9 dev net1 metric 1024"]],
];

Deno.test(
  requireRoot("sbr.add() finds the default route of a table"),
  async (t) => {
    for (const [name, { lines, keys }, defaults] of DEFAULTS) {
      await t.step(name, async () => {
        using fixture = new Fixture(
          [
            ...ETH0.filter((line) => !line.includes("default")),
            ...NET1,
            ...IPV6.filter((line) => !line.includes("default")),
            ...lines,
          ],
          keys,
        );
        await fixture.succeed("ADD");
        const found = fixture.table("100")
          .filter((line) => line.startsWith("default"));
        assertEquals(found, defaults);
        await fixture.succeed("CHECK");
        await fixture.succeed("DEL");
        assertEquals(fixture.table("100"), []);
      });
    }
  },
);

Deno.test(
  requireRoot(
    "sbr.add() moves the routes of the address's family, and no others",
  ),
  async (t) => {
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
        "those of an address that the result does not list stay",
        {
          lines: [
            "address add 172.16.0.2/24 dev net1",
            "route add 10.9.0.0/16 via 192.168.1.2 src 172.16.0.2",
          ],
          ips: [{ address }],
        },
        [
          "172.16.0.0/24 dev net1 proto kernel scope link src 172.16.0.2",
        ],
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
    for (const [name, { lines, ips }, main, table] of rows) {
      await t.step(name, async () => {
        using fixture = new Fixture([...ETH0, ...NET1, ...IPV6, ...lines], {
          ips,
        });
        const isInvolved = ips[0]?.address.includes(":")
          ? (): boolean => true
          : isOfIpv4;
        const before = fixture.networks.state().sort();
        await fixture.succeed("ADD");
        assertEquals(fixture.table("main").filter(isInvolved), main);
        assertEquals(fixture.table("100"), table);
        await fixture.succeed("ADD");
        assertEquals(fixture.table("100"), table, "once more");
        await fixture.succeed("CHECK");
        await fixture.succeed("DEL", {
          prevResult: {
            ...fixture.keys["prevResult"] as Keys,
            routes: [{ dst: "::/0", gw: "2001:db8:1::1" }],
          },
        });
        assertEquals(fixture.networks.state().sort(), before);
      });
    }
  },
);

Deno.test(
  requireRoot("sbr.add() builds on what is there of the attachment"),
  async (t) => {
    await t.step("an interface that was made anew", async () => {
      using fixture = new Fixture();
      await fixture.succeed("ADD");
      const before = fixture.networks.state().sort();
      fixture.ip(
        "link delete dev net1",
        "link add net1 type veth peer name other",
        "link set net1 up",
        "link set other up",
        ...NET1,
      );
      await fixture.succeed("ADD");
      assertEquals(fixture.networks.state().sort(), before);
    });
    await t.step("other gateways", async () => {
      using fixture = new Fixture([...ETH0, ...NET1, ...IPV6], {
        ips: [IP4, IP6],
      });
      await fixture.succeed("ADD");
      const gateways = ["192.168.1.254", "2001:db8:1::254"];
      await fixture.succeed("ADD", { gateways });
      for (
        const [table, gateway] of [["100", gateways[0]], ["101", gateways[1]]]
      ) {
        const found = fixture.table(table ?? "")
          .filter((line) => line.startsWith("default"));
        assertEquals(found.length, 1, found.join());
        assertStringIncludes(`${found}`, `via ${gateway} `);
      }
    });
    await t.step("hints, once more", async () => {
      using fixture = new Fixture([...ETH0, ...NET1, ...IPV6], {
        ips: [IP4, IP6],
        addSourceHints: true,
      });
      const before = fixture.networks.state().sort();
      await fixture.succeed("ADD");
      const once = fixture.networks.state();
      assert(
        once.includes(
          "2001:db8:1::/64 dev net1 src 2001:db8:1::209 metric 1024",
        ),
        once.join("\n"),
      );
      await fixture.succeed("ADD");
      assertEquals(fixture.networks.state(), once);
      await fixture.succeed("CHECK");
      await fixture.succeed("DEL");
      assertEquals(fixture.networks.state().sort(), before);
    });
  },
);

Deno.test(
  requireRoot("sbr.add() gives hints without harm to other interfaces"),
  async () => {
    // Both interfaces have the same subnets.
    using fixture = new Fixture([
      "address add 192.168.1.2/24 dev eth0",
      "address add 2001:db8:1::2/64 dev eth0 nodad",
      ...NET1,
      ...IPV6.filter((line) => line.includes("209")),
      "address add 192.168.1.210/24 dev net1",
    ], {
      ips: [IP4, { address: "192.168.1.210/24" }, IP6],
      addSourceHints: true,
    });
    const before = fixture.networks.state().sort();
    const others = (): string[] =>
      fixture.networks.routes().filter((line) => line.includes(" eth0 "));
    const ofEth0 = others();
    await fixture.succeed("ADD");
    assertEquals(others(), ofEth0);
    assertEquals(fixture.table("main"), [
      "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
      "2001:db8:1::/64 dev net1 src 2001:db8:1::209 metric 1024",
      "fe80::/64 dev net1 proto kernel metric 256",
    ]);
    await fixture.succeed("CHECK");
    await fixture.succeed("DEL");
    assertEquals(fixture.networks.state().sort(), before);
  },
);

Deno.test(
  requireRoot("sbr.add() does without a hint that the kernel refuses yet"),
  async () => {
    using fixture = new Fixture([
      ...ETH0,
      // While it may be another host's.
      "address add 2001:db8:1::209/64 dev net1",
    ], { ips: [IP6], addSourceHints: true });
    const before = fixture.networks.state().sort();
    const added = await fixture.run("ADD");
    assertEquals(added.exitCode, 0, added.stdout);
    assertStringIncludes(
      added.stderr,
      "Cannot add route 2001:db8:1::/64 of table 254",
    );
    assertEquals(fixture.table("main"), [
      "2001:db8:1::/64 dev net1 proto kernel metric 256",
    ]);
    await fixture.succeed("CHECK");
    await fixture.succeed("DEL");
    assertEquals(fixture.networks.state().sort(), before);
  },
);

Deno.test(
  requireRoot("sbr with a table adds and deletes rules to that table alone"),
  async () => {
    using fixture = new Fixture([
      ...ETH0,
      ...NET1,
      "route add default via 192.168.1.1 table 5000",
      "rule add from 192.168.1.209 lookup 150",
      "rule add from 192.168.1.209 to 10.9.0.0/16 lookup 5000",
      "rule add from 10.0.0.2 lookup 5000",
    ], {
      ips: [IP4, { address: "192.168.1.210/24" }],
      table: 5000,
    });
    const before = fixture.networks.state();
    const rules = [
      "32761: from 192.168.1.210 lookup 5000",
      "32762: from 192.168.1.209 lookup 5000",
      "32763: from 10.0.0.2 lookup 5000",
      "32764: from 192.168.1.209 to 10.9.0.0/16 lookup 5000",
      "32765: from 192.168.1.209 lookup 150",
    ];
    for (const _attempt of ["ADD", "ADD again"]) {
      await fixture.succeed("ADD");
      assertEquals(fixture.networks.rules(), rules);
    }
    await fixture.succeed("CHECK");
    await fixture.succeed("DEL");
    await fixture.succeed("DEL");
    assertEquals(fixture.networks.state(), before);
    const added = await fixture.run("ADD", {
      gateways: ["192.168.1.254"],
      addSourceHints: true,
    });
    assertEquals(added.exitCode, 0, added.stdout);
    assertStringIncludes(
      added.stderr,
      "Ignoring gateways and addSourceHints: the table is given",
    );
  },
);

/** What CHECK says when something was changed. */
const CHANGES: [name: string, keys: Keys, lines: string[], text: string][] = [
  [
    "the rule is gone",
    {},
    ["rule delete from 192.168.1.209 lookup 100"],
    "The rule for packets from 192.168.1.209 is gone",
  ],
  [
    "the rule of IPv6 is gone",
    {},
    ["-6 rule delete from 2001:db8:1::209 lookup 101"],
    "The rule for packets from 2001:db8:1::209 is gone",
  ],
  ["the rule leads elsewhere", {}, [
    "rule delete from 192.168.1.209 lookup 100",
    "route add default via 10.0.0.1 table 200",
    "rule add from 192.168.1.209 lookup 200",
  ], "The rule for packets from 192.168.1.209 is gone"],
  ["the rule leads to nothing", {}, [
    "rule delete from 192.168.1.209 lookup 100",
    "rule add from 192.168.1.209 lookup 200",
  ], "is not in the addresses' tables"],
  ["the rule has a condition", {}, [
    "rule delete from 192.168.1.209 lookup 100",
    "rule add from 192.168.1.209 fwmark 7 lookup 100",
  ], "The rule for packets from 192.168.1.209 is gone"],
  ["the rule comes too late", {}, [
    "rule delete from 192.168.1.209 lookup 100",
    "rule add from 192.168.1.209 lookup 100 priority 32800",
  ], "Table main is asked before the rule for packets from 192.168.1.209"],
  [
    "the table is empty",
    {},
    ["route flush table 100"],
    "is not in the addresses' tables",
  ],
  ["the table of IPv6 is empty", {}, ["-6 route flush table 101"], "is empty"],
  [
    "there is no default route",
    {},
    ["route delete default table 100"],
    "The table of 192.168.1.209 lacks a default route",
  ],
  [
    "the default route leads out elsewhere",
    {},
    [
      "route replace default via 10.0.0.1 dev eth0 table 100",
    ],
    "The rule for packets from 192.168.1.209 is gone",
  ],
  ["the default route of gateways is another one", {
    gateways: ["192.168.1.254"],
  }, [
    "route replace default via 192.168.1.1 table 100 dev net1 onlink",
  ], "The table of 192.168.1.209 lacks a default route via 192.168.1.254"],
  [
    "the subnet's route is gone",
    {},
    ["route delete 192.168.1.0/24 table 100"],
    "The table of 192.168.1.209 lacks a route to 192.168.1.1",
  ],
  [
    "a route of the result is gone",
    {},
    ["route delete 192.168.2.0/24 table 100"],
    "Route 192.168.2.0/24 via 192.168.1.2 is not in the addresses' tables",
  ],
  [
    "a hint is gone",
    { addSourceHints: true },
    ["-6 route delete 2001:db8:1::/64 table main"],
    "Table main lacks route 2001:db8:1::/64",
  ],
  [
    "the interface is gone",
    {},
    ["link delete dev net1"],
    'Interface "net1" is gone',
  ],
  [
    "the rule to the given table is gone",
    { table: 5000 },
    ["rule delete from 192.168.1.209 lookup 5000"],
    "The rule for packets from 192.168.1.209 to table 5000 is gone",
  ],
  [
    "a listed route of the given table is gone",
    { table: 5000 },
    ["route flush table 5000"],
    "Route 0.0.0.0/0 via 192.168.1.1 is not in the addresses' tables",
  ],
];

Deno.test(
  requireRoot("sbr.check() notices everything that was changed"),
  async (t) => {
    for (const [name, keys, lines, text] of CHANGES) {
      await t.step(name, async () => {
        using fixture = new Fixture([
          ...ETH0,
          ...NET1,
          ...IPV6,
          "route add default via 192.168.1.1 table 5000",
        ]);
        const prevResult = {
          ...fixture.networks.result([IP4, IP6]),
          routes: [
            { dst: "192.168.2.0/24", gw: "192.168.1.2" },
            { dst: "0.0.0.0/0", gw: "192.168.1.1", table: 5000 },
          ],
        };
        await fixture.succeed("ADD", { prevResult, ...keys });
        await fixture.succeed("CHECK", { prevResult, ...keys });
        fixture.ip(...lines);
        const checked = await fixture.run("CHECK", { prevResult, ...keys });
        assertFailure(checked, 999, text);
      });
    }
  },
);

Deno.test(requireRoot("sbr.check() judges prevResult"), async (t) => {
  using fixture = new Fixture();
  await fixture.succeed("ADD");
  const rows: [
    name: string,
    prevResult: unknown,
    code: number,
    text: string,
  ][] = [
    [
      "none",
      undefined,
      7,
      "This plugin must be called as chained plugin",
    ],
    ["no address", { ips: [] }, 7, "No IP addresses supplied"],
    [
      "another address",
      { ips: [{ address: "192.168.1.7/24" }] },
      999,
      "The rule for packets from 192.168.1.7 is gone",
    ],
    ["another family", { cniVersion: "0.3.0" }, 1, "could not parse"],
  ];
  for (const [name, prevResult, code, text] of rows) {
    await t.step(name, async () => {
      assertFailure(await fixture.run("CHECK", { prevResult }), code, text);
    });
  }
  await t.step("routes of other interfaces and of the kernel", async () => {
    const prevResult = {
      interfaces: [{ name: "net1", sandbox: "/x" }, { name: "eth0" }],
      ips: [{ ...IP4, interface: 0 }, {
        address: "10.0.0.2/24",
        interface: 1,
      }],
      routes: [
        { dst: "10.2.0.0/24", gw: "10.0.0.5" },
        { dst: "2001:db8::/32" },
        { dst: "0.0.0.0/0" },
      ],
    };
    await fixture.succeed("CHECK", { prevResult });
  });
});

Deno.test(
  requireRoot("sbr.del() succeeds without a namespace, and creates nothing"),
  async (t) => {
    using fixture = new Fixture();
    const { folder } = fixture.networks.hosts;
    const file = `${folder}/file`, nothing = `${folder}/nothing`;
    Deno.writeTextFileSync(file, "kept", { mode: 0o444 });
    await fixture.succeed("ADD");
    const before = fixture.networks.state();
    const rows: [name: string, path: string][] = [
      ["none is given", ""],
      ["no such file", nothing],
      ["no such folder", `${nothing}/netns`],
      ["within a file", `${file}/netns`],
      ["a plain file", file],
      ["a folder", folder],
      ["a process that has ended", "/proc/4194304/ns/net"],
      ["another kind of namespace", "/proc/self/ns/uts"],
      ["a device", "/dev/null"],
    ];
    for (const [name, CNI_NETNS] of rows) {
      for (const keys of [fixture.keys, {}, { table: 5000 }]) {
        await t.step(`${name}, ${Object.keys(keys)}`, async () => {
          const env = { CNI_NETNS };
          const deleted = await fixture.networks.run("sbr", "DEL", keys, env);
          assertSuccess(deleted);
        });
      }
    }
    const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
    assertEquals(names.sort(), ["bin", "file"]);
    assertEquals(Deno.readTextFileSync(file), "kept");
    assertEquals(fixture.networks.state(), before);
  },
);

Deno.test(
  requireRoot("sbr.del() finds what is left, whatever it is told"),
  async (t) => {
    const rows: [name: string, keys: Keys][] = [
      ["all", {}],
      ["no prevResult", { prevResult: undefined }],
      ["a prevResult that is none", { prevResult: "none" }],
      ["a prevResult of another version", {
        prevResult: { cniVersion: "0.4.0", ips: [IP4] },
      }],
      ["a prevResult with an address that is none", {
        prevResult: { ips: [{ address: "?" }] },
      }],
      ["a prevResult of other addresses", {
        prevResult: { ips: [{ address: "10.77.0.1/24" }] },
      }],
      ["keys that cannot be read", {
        gateways: ["one", "two", "three"],
        addSourceHints: "perhaps",
      }],
      ["an older version", { cniVersion: "0.3.0", prevResult: undefined }],
    ];
    for (const [name, keys] of rows) {
      await t.step(name, async () => {
        using fixture = new Fixture([...ETH0, ...NET1, ...IPV6], {
          ips: [IP4, IP6],
        });
        const before = fixture.networks.state().sort();
        for (const _attempt of ["DEL", "DEL again"]) {
          await fixture.succeed("ADD");
          const deleted = await fixture.run("DEL", keys);
          assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
          assertEquals(fixture.networks.state().sort(), before);
        }
        const again = await fixture.run("DEL", keys);
        assertEquals([again.exitCode, again.stdout], [0, ""]);
        assertEquals(fixture.networks.state().sort(), before);
      });
    }
  },
);

Deno.test(
  requireRoot("sbr.del() finds the rules when the interface is gone or down"),
  async (t) => {
    const ips = [IP4, IP6];
    await t.step("gone, with prevResult", async () => {
      using fixture = new Fixture([...ETH0, ...NET1, ...IPV6], { ips });
      await fixture.succeed("ADD");
      fixture.ip("link delete dev net1");
      await fixture.succeed("DEL");
      assertEquals(fixture.networks.rules(), []);
    });
    await t.step("gone, without prevResult nobody can know", async () => {
      using fixture = new Fixture([...ETH0, ...NET1, ...IPV6], { ips });
      await fixture.succeed("ADD");
      fixture.ip("link delete dev net1");
      await fixture.succeed("DEL", { prevResult: undefined });
      assertEquals(fixture.networks.rules().length, 2);
    });
    await t.step("down", async () => {
      using fixture = new Fixture([...ETH0, ...NET1, ...IPV6], { ips });
      await fixture.succeed("ADD");
      fixture.ip("link set dev net1 down");
      await fixture.succeed("DEL");
      assertEquals(fixture.networks.rules(), []);
      assertEquals(fixture.table("100"), []);
      assertEquals(fixture.table("101"), []);
    });
    await t.step("without its addresses", async () => {
      using fixture = new Fixture([...ETH0, ...NET1, ...IPV6], { ips });
      await fixture.succeed("ADD");
      fixture.ip("address flush dev net1");
      await fixture.succeed("DEL");
      assertEquals(fixture.networks.rules(), []);
      assertEquals(fixture.table("100"), []);
      assertEquals(fixture.table("101"), []);
    });
  },
);

Deno.test(
  requireRoot("sbr.del() leaves rules and tables of others alone"),
  async (t) => {
    const rows: [name: string, lines: string[]][] = [
      ["a rule with a condition", [
        "rule add from 192.168.1.209 to 10.9.0.0/16 lookup 100",
      ]],
      ["a rule of a subnet", ["rule add from 192.168.1.0/24 lookup 100"]],
      ["a rule of another address", ["rule add from 192.168.1.7 lookup 100"]],
      ["a rule to a table of the kernel's", [
        "rule add from 192.168.1.209 lookup main priority 40000",
        "rule add from 192.168.1.209 lookup default priority 40001",
      ]],
      ["a rule to a table with a lower number", [
        "rule add from 192.168.1.209 lookup 99",
      ]],
      ["a rule to a table of another interface", [
        "rule add from 192.168.1.209 lookup 200",
        "route add default via 10.0.0.1 table 200",
      ]],
      ["a table that no rule leads to", [
        "route add default via 192.168.1.7 table 300",
      ]],
    ];
    for (const [name, lines] of rows) {
      await t.step(name, async () => {
        using fixture = new Fixture();
        fixture.ip(...lines);
        const before = fixture.networks.state().sort();
        await fixture.succeed("ADD");
        await fixture.succeed("CHECK");
        await fixture.succeed("DEL");
        assertEquals(fixture.networks.state().sort(), before);
      });
    }
    await t.step("a table that others have come to use", async () => {
      using fixture = new Fixture();
      await fixture.succeed("ADD");
      fixture.ip("rule add from 10.0.0.2 lookup 100");
      const table = fixture.table("100");
      await fixture.succeed("DEL");
      assertEquals(fixture.networks.rules(), [
        "32764: from 10.0.0.2 lookup 100",
      ]);
      assertEquals(fixture.table("100"), table);
    });
    await t.step("another interface that has the same address", async () => {
      using fixture = new Fixture([
        "address add 192.168.1.209/24 dev eth0",
        ...NET1,
      ]);
      const { hosts } = fixture.networks;
      const config = { cniVersion: "1.0.0", name: "other", type: "sbr" };
      const keys = { ...config, prevResult: { ips: [IP4] } };
      const ofEth0 = { ifName: "eth0" };
      assertSuccess(await hosts.run("sbr", "ADD", keys, ofEth0));
      const before = fixture.networks.state().sort();
      await fixture.succeed("ADD");
      assertEquals(fixture.networks.rules(), [
        "32764: from 192.168.1.209 lookup 101",
        RULE,
      ]);
      await fixture.succeed("DEL");
      assertEquals(fixture.networks.state().sort(), before);
      assertSuccess(await hosts.run("sbr", "DEL", keys, ofEth0));
      assertEquals(fixture.networks.rules(), []);
    });
  },
);

Deno.test(
  requireRoot("sbr.del() brings the default routes back that the result lists"),
  async (t) => {
    const lines = [
      ...ETH0,
      ...NET1,
      ...IPV6,
      "route add default via 192.168.1.1 dev net1 metric 7 mtu 1400",
      "route append default via 2001:db8:1::1 dev net1",
    ];
    const rows: [name: string, keys: Keys][] = [
      ["moved", {}],
      ["dropped", { gateways: ["192.168.1.254", "2001:db8:1::254"] }],
    ];
    for (const [name, keys] of rows) {
      await t.step(name, async () => {
        using fixture = new Fixture(lines);
        const prevResult = {
          ...fixture.networks.result([IP4, IP6]),
          routes: [
            { dst: "0.0.0.0/0", priority: 7, mtu: 1400 },
            { dst: "::/0", gw: "2001:db8:1::1" },
          ],
        };
        const before = fixture.networks.state().sort();
        await fixture.succeed("ADD", { prevResult, ...keys });
        await fixture.succeed("DEL", { prevResult, ...keys });
        assertEquals(fixture.networks.state().sort(), before);
      });
    }
  },
);

const flock = ignoreUnless(hasCommand("flock"), "needs flock");
const locked = requireRoot(
  `sbr waits for others that have locked the namespace${flock.suffix}`,
);

Deno.test({
  ...locked,
  ignore: locked.ignore || flock.ignore,
  fn: async (t) => {
    for (const command of ["ADD", "CHECK", "DEL"]) {
      await t.step(command, async () => {
        using fixture = new Fixture();
        const { hosts, sandbox } = fixture.networks;
        const done = `${hosts.folder}/done`;
        // By another path, and as the Go plugin does it.
        const path = `${hosts.folder}/netns`;
        Deno.symlinkSync(sandbox.path, path);
        if (command === "CHECK") await fixture.succeed("ADD");
        const script = `echo locked; sleep 0.1; : > ${done}`;
        const holder = new Deno.Command("flock", {
          args: [path, "sh", "-c", script],
          stdout: "piped",
        }).spawn();
        const reader = holder.stdout.getReader();
        await reader.read();
        await fixture.succeed(command);
        assert(Deno.statSync(done).isFile);
        await Promise.all([holder.status, reader.cancel()]);
      });
    }
  },
});

Deno.test(
  requireRoot("sbr gives up waiting for the namespace after a while"),
  async (t) => {
    const acquire = FileLock.acquireExisting;
    const paths: string[] = [];
    FileLock.acquireExisting = (path, timeoutMs): FileLock => {
      paths.push(path);
      assert(timeoutMs <= 30_000);
      throw new SyscallError("flock", 11);
    };
    try {
      for (const command of ["ADD", "CHECK", "DEL"]) {
        await t.step(command, async () => {
          using fixture = new Fixture();
          const before = fixture.networks.state();
          const output = await fixture.run(command);
          const { path } = fixture.networks.sandbox;
          assertFailure(output, 11, `Cannot lock network namespace "${path}"`);
          assertEquals(fixture.networks.state(), before);
        });
      }
      assertEquals(paths.length, 3);
    } finally {
      FileLock.acquireExisting = acquire;
    }
  },
);

Deno.test(
  requireRoot("sbr answers STATUS by the configuration, and GC always"),
  async () => {
    using fixture = new Fixture();
    await fixture.succeed("ADD");
    const before = fixture.networks.state();
    const current = { cniVersion: "1.1.0", prevResult: undefined };
    await fixture.succeed("STATUS", { ...current, gateways: ["192.168.1.1"] });
    const status = await fixture.run("STATUS", { ...current, table: -1 });
    assertFailure(status, 7, "table: expected at least 1, got -1");
    await fixture.succeed("GC", {
      ...current,
      "cni.dev/valid-attachments": [],
    });
    assertEquals(fixture.networks.state(), before);
  },
);
