// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls
import { assertEquals } from "@std/assert";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { simulateNewerKernel } from "../../ffi/rtnl/testing.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { IP4, IP6, SbrScene } from "./testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { ETH0, IPV6, NET1 } from "../../tests/_harness/two_networks.ts";

const RULE = "32765: from 192.168.1.209 lookup 100";

rootTest("sbr.del() succeeds without a namespace", async (t) => {
  using scene = new SbrScene();
  const { directory } = scene.networks.hosts;
  const file = `${directory}/file`, nothing = `${directory}/nothing`;
  Deno.writeTextFileSync(file, "kept", { mode: 0o444 });
  await scene.succeed("ADD");
  const before = scene.networks.state();
  const rows: [name: string, path: string][] = [
    ["none is given", ""],
    ["no such file", nothing],
    ["no such directory", `${nothing}/netns`],
    ["within a file", `${file}/netns`],
    ["a plain file", file],
    ["a directory", directory],
    ["a process that has ended", "/proc/4194304/ns/net"],
    ["another kind of namespace", "/proc/self/ns/uts"],
    ["a device", "/dev/null"],
  ];
  for (const [name, CNI_NETNS] of rows) {
    await eachRow(t, [scene.keys, {}, { table: 5000 }], async (keys) => {
      const env = { CNI_NETNS };
      const deleted = await scene.networks.run("sbr", "DEL", keys, env);
      assertSuccess(deleted);
    }, (keys) => `${name}, ${Object.keys(keys)}`);
  }
  const names = [...Deno.readDirSync(directory)].map(({ name }) => name);
  assertEquals(names.sort(), ["bin", "file"]);
  assertEquals(Deno.readTextFileSync(file), "kept");
  assertEquals(scene.networks.state(), before);
});

rootTest("sbr.del() removes everything, with any prevResult", async (t) => {
  const rows: [name: string, keys: Keys][] = [
    ["all", {}],
    ["no prevResult", { prevResult: undefined }],
    ["an invalid prevResult", { prevResult: "none" }],
    ["a prevResult of another version", {
      prevResult: { cniVersion: "0.4.0", ips: [IP4] },
    }],
    ["a prevResult with an invalid address", {
      prevResult: { ips: [{ address: "?" }] },
    }],
    ["keys that cannot be read", {
      gateways: ["one", "two", "three"],
      addSourceHints: "perhaps",
    }],
    ["an older version", { cniVersion: "0.3.0", prevResult: undefined }],
  ];
  await eachRow(t, rows, async ([, keys]) => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6], {
      ips: [IP4, IP6],
    });
    const before = scene.state;
    for (const _attempt of ["DEL", "DEL again"]) {
      await scene.succeed("ADD");
      const deleted = await scene.run("DEL", keys);
      assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
      assertEquals(scene.state, before);
    }
    const again = await scene.run("DEL", keys);
    assertEquals([again.exitCode, again.stdout], [0, ""]);
    assertEquals(scene.state, before);
  });
});

rootTest("sbr.del() finds rules without the interface", async (t) => {
  const ips = [IP4, IP6];
  await t.step("of a deleted interface, with prevResult", async () => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6], { ips });
    await scene.succeed("ADD");
    scene.ip("link delete dev net1");
    await scene.succeed("DEL");
    assertEquals(scene.networks.rules(), []);
  });
  await t.step("but not of a deleted link without prevResult", async () => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6], { ips });
    await scene.succeed("ADD");
    scene.ip("link delete dev net1");
    await scene.succeed("DEL", { prevResult: undefined });
    assertEquals(scene.networks.rules().length, 2);
  });
  await t.step("of an interface that is down", async () => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6], { ips });
    await scene.succeed("ADD");
    scene.ip("link set dev net1 down");
    await scene.succeed("DEL");
    assertEquals(scene.networks.rules(), []);
    assertEquals(scene.table("100"), []);
    assertEquals(scene.table("101"), []);
  });
  await t.step("of an interface without its addresses", async () => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6], { ips });
    await scene.succeed("ADD");
    scene.ip("address flush dev net1");
    await scene.succeed("DEL");
    assertEquals(scene.networks.rules(), []);
    assertEquals(scene.table("100"), []);
    assertEquals(scene.table("101"), []);
  });
});

rootTest("sbr.del() keeps third-party rules and tables", async (t) => {
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
  await eachRow(t, rows, async ([, lines]) => {
    using scene = new SbrScene();
    scene.ip(...lines);
    const before = scene.state;
    await scene.succeed("ADD");
    await scene.succeed("CHECK");
    await scene.succeed("DEL");
    assertEquals(scene.state, before);
  });
  await t.step("a table to which another rule now leads", async () => {
    using scene = new SbrScene();
    await scene.succeed("ADD");
    scene.ip("rule add from 10.0.0.2 lookup 100");
    const table = scene.table("100");
    await scene.succeed("DEL");
    assertEquals(scene.networks.rules(), ["32764: from 10.0.0.2 lookup 100"]);
    assertEquals(scene.table("100"), table);
  });
  await t.step("another interface with the same address", async () => {
    using scene = new SbrScene([
      "address add 192.168.1.209/24 dev eth0",
      ...NET1,
    ]);
    const { hosts } = scene.networks;
    const config = { cniVersion: "1.0.0", name: "other", type: "sbr" };
    const keys = { ...config, prevResult: { ips: [IP4] } };
    const ofEth0 = { ifName: "eth0" };
    assertSuccess(await hosts.run("sbr", "ADD", keys, ofEth0));
    const before = scene.state;
    await scene.succeed("ADD");
    assertEquals(scene.networks.rules(), [
      "32764: from 192.168.1.209 lookup 101",
      RULE,
    ]);
    await scene.succeed("DEL");
    assertEquals(scene.state, before);
    assertSuccess(await hosts.run("sbr", "DEL", keys, ofEth0));
    assertEquals(scene.networks.rules(), []);
  });
});

rootTest("sbr.del() restores the default routes of the result", async (t) => {
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
  await eachRow(t, rows, async ([, keys]) => {
    using scene = new SbrScene(lines);
    const prevResult = {
      ...scene.networks.result([IP4, IP6]),
      routes: [
        { dst: "0.0.0.0/0", priority: 7, mtu: 1400 },
        { dst: "::/0", gw: "2001:db8:1::1" },
      ],
    };
    const before = scene.state;
    await scene.succeed("ADD", { prevResult, ...keys });
    await scene.succeed("DEL", { prevResult, ...keys });
    assertEquals(scene.state, before);
  });
});

rootTest("sbr.del() restores the metrics of default routes", async (t) => {
  // The result need not contain metrics: before 1.1.0 it could not.
  const rows: [name: string, lines: string[], keys: Keys][] = [
    ["one", ["route add default via 192.168.1.1 dev net1 metric 7"], {}],
    ["two", [
      "route add default via 192.168.1.1 dev net1 metric 7",
      "route add default via 192.168.1.1 dev net1 metric 300",
    ], {}],
    ["one without", ["route append default via 192.168.1.1 dev net1"], {}],
    ["IPv6", ["route add default via 2001:db8:1::1 dev net1 metric 7"], {}],
    ["in favour of the configuration's", [
      "route add default via 192.168.1.1 dev net1 metric 7",
      "route add default via 2001:db8:1::1 dev net1 metric 9",
    ], { gateways: ["192.168.1.254", "2001:db8:1::254"] }],
  ];
  await eachRow(t, rows, async ([, lines, keys]) => {
    using scene = new SbrScene([...ETH0, ...NET1, ...IPV6, ...lines]);
    const families = lines.map((line) => line.includes("::") ? 6 : 4);
    const routes = [
      ...families.includes(4) ? [{ dst: "0.0.0.0/0" }] : [],
      ...families.includes(6) ? [{ dst: "::/0", gw: "2001:db8:1::1" }] : [],
    ];
    const prevResult = { ...scene.networks.result([IP4, IP6]), routes };
    const before = scene.state;
    await scene.succeed("ADD", { prevResult, ...keys });
    await scene.succeed("DEL", { prevResult, ...keys });
    assertEquals(scene.state, before);
  });
});

rootTest("sbr.del() removes its rules on newer kernels", async () => {
  using scene = new SbrScene();
  const before = scene.state;
  await scene.succeed("ADD");
  using newer = simulateNewerKernel();
  await scene.succeed("CHECK");
  await scene.succeed("DEL");
  newer[Symbol.dispose]();
  assertEquals(scene.state, before);
});

/** Returns `net1` as results have it. */
function net1Of({ networks }: SbrScene): Keys {
  const [{ address }] = ipJson(networks.sandbox, "link", "show", "net1");
  return { name: "net1", mac: address, sandbox: networks.sandbox.path };
}

rootTest("sbr.del() does not change another pod's sandbox", async (t) => {
  const other = { address: "10.77.0.1/24" };
  type ValuesOf = (scene: SbrScene) => Keys;
  // Other values of the interface, if there is one; and the address.
  const rows: [string, ValuesOf | undefined, Keys, boolean][] = [
    ["the same MAC and address", () => ({}), IP4, false],
    ["the same MAC, other addresses", () => ({}), other, false],
    [
      "a MAC that the pod has changed, the same address",
      () => ({ mac: "02:00:00:00:00:07" }),
      IP4,
      false,
    ],
    [
      "another MAC, other addresses",
      () => ({ mac: "02:00:00:00:00:07" }),
      other,
      true,
    ],
    ["no MAC, the same address", () => ({ mac: undefined }), IP4, false],
    ["no MAC, other addresses", () => ({ mac: undefined }), other, true],
    ["no interface, other addresses", undefined, other, true],
    [
      "another sandbox",
      ({ networks }) => ({ sandbox: networks.hosts.addNetns().path }),
      IP4,
      true,
    ],
    [
      "a sandbox that is gone",
      () => ({ sandbox: "/proc/4194304/ns/net" }),
      IP4,
      false,
    ],
  ];
  await eachRow(t, rows, async ([, valuesOf, ip, isLeft]) => {
    using scene = new SbrScene();
    const before = scene.state;
    await scene.succeed("ADD");
    const added = scene.state;
    const prevResult = valuesOf === undefined ? { ips: [ip] } : {
      interfaces: [{ ...net1Of(scene), ...valuesOf(scene) }],
      ips: [{ ...ip, interface: 0 }],
    };
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.state, isLeft ? added : before);
  });
  await t.step("a sandbox whose other link has the address", async () => {
    using scene = new SbrScene([
      "address add 192.168.1.209/24 dev eth0",
      "rule add from 192.168.1.209 lookup 100",
      "link delete dev net1",
    ]);
    const before = scene.state;
    await scene.succeed("DEL");
    assertEquals(scene.state, before);
  });
});

rootTest(
  "sbr.del() without prevResult keeps the rules of another attachment's interface",
  async (t) => {
    const ptp = (hosts: TestHosts): Keys => ({
      type: "ptp",
      ipam: hosts.hostLocal("10.1.2.0/24"),
    });
    const rows: [name: string, otherId: Keys, keys: Keys][] = [
      ["another container's", { containerId: "late" }, {}],
      ["another network's", {}, { name: "second" }],
    ];
    await eachRow(t, rows, async ([, other, more]) => {
      using hosts = TestHosts.create();
      const config = { cniVersion: "1.0.0", name: "net1", ...ptp(hosts) };
      const { json: prevResult } = await hosts.run("ptp", "ADD", config);
      const keys = { ...config, type: "sbr" };
      assertSuccess(await hosts.run("sbr", "ADD", { ...keys, prevResult }));
      const before = ipJson(hosts.sandbox, "rule");
      // The name is taken, or the namespace has been used again since.
      const deleted = await hosts.run(
        "sbr",
        "DEL",
        { ...keys, ...more },
        other,
      );
      assertSuccess(deleted);
      assertEquals(ipJson(hosts.sandbox, "rule"), before);
      assertSuccess(await hosts.run("sbr", "CHECK", { ...keys, prevResult }));
      assertSuccess(await hosts.run("sbr", "DEL", keys));
      assertEquals(ipJson(hosts.sandbox, "rule").length, before.length - 1);
    });
    await t.step("by the alias of a link without a host end", async () => {
      using scene = new SbrScene();
      await scene.succeed("ADD");
      const before = scene.state;
      scene.ip("link set dev net1 alias cni/network/other/net1");
      await scene.succeed("DEL", { prevResult: undefined });
      assertEquals(scene.state, before);
    });
  },
);
