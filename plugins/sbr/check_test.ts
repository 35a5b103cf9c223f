import { assertEquals } from "@std/assert";
import {
  assertFailure,
  assertSuccess,
} from "../../tests/_harness/call_outcome.ts";
import { rootTest } from "../../testing/capabilities.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { IP4, IP6, SbrScene } from "./testing.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { ETH0, IPV6, NET1 } from "../../tests/_harness/two_networks.ts";

/** Changes, and CHECK's error about them. */
const CHANGES: [name: string, keys: Keys, lines: string[], text: string][] = [
  [
    "the rule is gone",
    {},
    ["rule delete from 192.168.1.209 lookup 100"],
    "The rule for packets from 192.168.1.209 is missing",
  ],
  [
    "the rule of IPv6 is gone",
    {},
    ["-6 rule delete from 2001:db8:1::209 lookup 101"],
    "The rule for packets from 2001:db8:1::209 is missing",
  ],
  ["the rule leads elsewhere", {}, [
    "rule delete from 192.168.1.209 lookup 100",
    "route add default via 10.0.0.1 table 200",
    "rule add from 192.168.1.209 lookup 200",
  ], "The rule for packets from 192.168.1.209 is missing"],
  ["the rule leads to nothing", {}, [
    "rule delete from 192.168.1.209 lookup 100",
    "rule add from 192.168.1.209 lookup 200",
  ], "is not in the addresses' tables"],
  ["the rule has a condition", {}, [
    "rule delete from 192.168.1.209 lookup 100",
    "rule add from 192.168.1.209 fwmark 7 lookup 100",
  ], "The rule for packets from 192.168.1.209 is missing"],
  ["the rule comes too late", {}, [
    "rule delete from 192.168.1.209 lookup 100",
    "rule add from 192.168.1.209 lookup 100 priority 32800",
  ], "Table main comes before the rule for packets from 192.168.1.209"],
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
    ["route replace default via 10.0.0.1 dev eth0 table 100"],
    "The rule for packets from 192.168.1.209 is missing",
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
    'Interface "net1" no longer exists',
  ],
  [
    "the rule to the given table is gone",
    { table: 5000 },
    ["rule delete from 192.168.1.209 lookup 5000"],
    "The rule for packets from 192.168.1.209 to table 5000 is missing",
  ],
  [
    "a listed route of the given table is gone",
    { table: 5000 },
    ["route flush table 5000"],
    "Route 0.0.0.0/0 via 192.168.1.1 is not in the addresses' tables",
  ],
];

rootTest("sbr.check() reports each change", async (t) => {
  await eachRow(t, CHANGES, async ([, keys, lines, text]) => {
    using scene = new SbrScene([
      ...ETH0,
      ...NET1,
      ...IPV6,
      "route add default via 192.168.1.1 table 5000",
    ]);
    const prevResult = {
      ...scene.networks.result([IP4, IP6]),
      routes: [
        { dst: "192.168.2.0/24", gw: "192.168.1.2" },
        { dst: "0.0.0.0/0", gw: "192.168.1.1", table: 5000 },
      ],
    };
    await scene.succeed("ADD", { prevResult, ...keys });
    await scene.succeed("CHECK", { prevResult, ...keys });
    scene.ip(...lines);
    const checked = await scene.run("CHECK", { prevResult, ...keys });
    assertFailure(checked, 999, text);
  });
});

rootTest("sbr.check() compares prevResult", async (t) => {
  using scene = new SbrScene();
  await scene.succeed("ADD");
  const rows: [string, unknown, number, string][] = [
    ["none", undefined, 7, "This plugin must be called as chained plugin"],
    ["no address", { ips: [] }, 7, "No IP addresses supplied"],
    [
      "another address",
      { ips: [{ address: "192.168.1.7/24" }] },
      999,
      "The rule for packets from 192.168.1.7 is missing",
    ],
    ["another family", { cniVersion: "0.3.0" }, 1, "could not parse"],
  ];
  await eachRow(t, rows, async ([, prevResult, code, text]) => {
    assertFailure(await scene.run("CHECK", { prevResult }), code, text);
  });
  await t.step("routes of other interfaces and of the kernel", async () => {
    const prevResult = {
      interfaces: [{ name: "net1", sandbox: "/x" }, { name: "eth0" }],
      ips: [{ ...IP4, interface: 0 }, { address: "10.0.0.2/24", interface: 1 }],
      routes: [
        { dst: "10.2.0.0/24", gw: "10.0.0.5" },
        { dst: "2001:db8::/32" },
        { dst: "0.0.0.0/0" },
      ],
    };
    await scene.succeed("CHECK", { prevResult });
  });
});

rootTest("sbr.check() succeeds after loopback in a network list", async () => {
  using hosts = TestHosts.create();
  const run = async (
    type: string,
    command: string,
    keys: Keys = {},
  ): Promise<CallOutput> => {
    const config = { cniVersion: "1.0.0", name: "net1", type, ...keys };
    const output = await hosts.run(type, command, config, { ifName: "lo" });
    assertSuccess(output);
    return output;
  };
  const { json: prevResult } = await run("loopback", "ADD");
  for (const command of ["ADD", "CHECK", "DEL"]) {
    await run("sbr", command, { prevResult });
  }
});

rootTest("sbr.check() reports all differences", async (t) => {
  const rows: [lines: string[], msg: string, details: string][] = [
    [
      [
        "rule delete from 192.168.1.209 lookup 100",
        "-6 route flush table 101",
      ],
      "The rule for packets from 192.168.1.209 is missing",
      "also: The table of 2001:db8:1::209 is empty",
    ],
    [
      [
        "rule delete from 192.168.1.209 lookup 100",
        "rule add from 192.168.1.209 lookup 100 priority 32800",
        "route delete default table 100",
      ],
      "Table main comes before the rule for packets from 192.168.1.209",
      "also: The table of 192.168.1.209 lacks a default route",
    ],
  ];
  await eachRow(t, rows, async ([lines, msg, details]) => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6]);
    const prevResult = {
      ...scene.networks.result([IP4, IP6]),
      routes: [{ dst: "192.168.2.0/24", gw: "192.168.1.2" }],
    };
    await scene.succeed("ADD", { prevResult });
    scene.ip(...lines);
    const { json } = await scene.run("CHECK", { prevResult });
    assertEquals([json.msg, json.details], [msg, details]);
  }, ([, msg]) => msg);
});
