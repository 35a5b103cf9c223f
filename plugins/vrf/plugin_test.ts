import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { inNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import { rootTest } from "../../testing/capabilities.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { runIn } from "../../testing/ip_json.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { createLog } from "../../base/log/log.ts";
import { Rollback } from "../../base/rollback.ts";
import { ETH0, needsVrf, VrfScene } from "./testing.ts";
import { ensureVrf } from "./vrf_link.ts";

const KEYS = { vrfname: "blue" };

rootTest("vrf.add() is idempotent", needsVrf, async () => {
  using scene = new VrfScene(KEYS);
  const { state: before } = scene;
  const { json: prevResult } = await scene.succeed("ADD");
  const { state } = scene;
  await scene.succeed("ADD");
  assertEquals(scene.state, state);
  await scene.succeed("DEL", { prevResult });
  assertEquals(scene.state, before);
  await scene.succeed("DEL", { prevResult });
  assertEquals(scene.state, before);
});

rootTest(
  "vrf adds no address twice if the kernel keeps addresses",
  needsVrf,
  async () => {
    using scene = new VrfScene(KEYS, []);
    const key = "net/ipv6/conf/eth0/keep_addr_on_down";
    inNetns(scene.hosts.sandbox, () => writeSysctl(key, "1"));
    scene.ip(...ETH0);
    const { state: before } = scene;
    const { json: prevResult } = await scene.succeed("ADD");
    await scene.succeed("CHECK", { prevResult });
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.state, before);
  },
);

rootTest(
  "vrf keeps the remaining lifetime of addresses",
  needsVrf,
  async () => {
    using scene = new VrfScene(KEYS, []);
    const key = "net/ipv6/conf/eth0/keep_addr_on_down";
    inNetns(scene.hosts.sandbox, () => writeSysctl(key, "1"));
    const leased = "2001:db8::9/128", derived = "2001:db8:c::9/64";
    const times = "nodad valid_lft 1800 preferred_lft 900";
    scene.ip(
      ...ETH0,
      `address add ${leased} dev eth0 ${times}`,
      `address add ${derived} dev eth0 mngtmpaddr ${times}`,
    );
    const { state: before } = scene;
    const isInTime = (): boolean => {
      using rtnl = Rtnl.open(scene.hosts.sandbox.path);
      const all = rtnl.address.list({ family: 6 });
      return [leased, derived].every((text) => {
        const found = all.find(({ address }) => String(address) === text);
        const { preferred = 0, valid = 0 } = found?.lifetime ?? {};
        return preferred > 0 && preferred <= 900 && valid > 900 &&
          valid <= 1800;
      });
    };
    const learned = { "cni.dev/learned": true };
    const { ips, routes } = scene.prevResult as Record<string, Keys[]>;
    const prevResult = {
      ...scene.prevResult,
      ips: [...ips ?? [], { interface: 0, address: leased, ...learned }],
      routes: [
        ...routes ?? [],
        { dst: "2001:db8:8::/48", gw: "fe80::aa", ...learned },
      ],
    };
    await scene.succeed("ADD", { prevResult });
    assert(isInTime(), "after ADD");
    const { state } = scene;
    await scene.succeed("ADD", { prevResult });
    assertEquals(scene.state, state);
    await scene.succeed("DEL", { prevResult });
    assert(isInTime(), "after DEL");
    assertEquals(scene.state, before);

    await scene.succeed("ADD", { prevResult });
    scene.ip(`address del ${leased} dev eth0`);
    const { state: expired } = scene;
    await scene.succeed("ADD", { prevResult });
    assertEquals(scene.state, expired);
  },
);

rootTest(
  "vrf ignores links that appear while it runs",
  needsVrf,
  async () => {
    using scene = new VrfScene(KEYS, []);
    using rtnl = Rtnl.open(scene.hosts.sandbox.path);
    const list = rtnl.link.list.bind(rtnl.link);
    rtnl.link.list = () => {
      scene.ip("link add blue type vrf table 9");
      return list();
    };
    {
      await using rollback = new Rollback(createLog({}, () => {}));
      assertThrows(() => ensureVrf(rtnl, "blue", 0, rollback), Error, "blue");
    }
    assertEquals(scene.links, ["eth0", "eth1", "blue 9"]);
  },
);

rootTest("vrf keeps the routes that ptp added", needsVrf, async () => {
  using scene = new VrfScene(KEYS, [
    "address add 10.0.0.2/24 dev eth0",
    "route del 10.0.0.0/24 dev eth0",
    "route add 10.0.0.1 dev eth0 scope link src 10.0.0.2",
    "route add 10.0.0.0/24 via 10.0.0.1 src 10.0.0.2",
  ]);
  const { state: before } = scene;
  const routes = scene.table("main");
  await scene.succeed("ADD", { prevResult: {} });
  assertEquals(scene.table(1), routes);
  await scene.succeed("DEL", { prevResult: undefined });
  assertEquals(scene.state, before);
});

rootTest("vrf moves routes over nexthop objects", needsVrf, async () => {
  using scene = new VrfScene(KEYS, [
    "address add 10.0.0.2/24 dev eth0",
    "nexthop add id 5 via 10.0.0.7 dev eth0",
    "route add 10.9.0.0/16 nhid 5",
  ]);
  const route = "10.9.0.0/16 via 10.0.0.7 dev eth0";
  const prevResult = { ...scene.prevResult, routes: [] };
  await scene.succeed("ADD", { prevResult });
  assertStringIncludes(scene.table(1).join(), route);
  await scene.succeed("DEL", { prevResult });
  assertStringIncludes(scene.table("main").join(), route);
});

rootTest(
  "vrf moves only its interface's next hops of a multipath route",
  needsVrf,
  async (t) => {
    const rows: [name: string, family: 4 | 6, line: string][] = [
      [
        "IPv4",
        4,
        "route add default nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1 weight 3",
      ],
      [
        "IPv4, three",
        4,
        "route add 10.7.0.0/16 nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1 nexthop via 10.1.0.7 dev eth1",
      ],
      [
        "IPv6",
        6,
        "route add default nexthop via 2001:db8::1 dev eth0 nexthop via 2001:db8:b::1 dev eth1",
      ],
      [
        "IPv6, three",
        6,
        "route add 2001:db8:7::/48 nexthop via 2001:db8::1 dev eth0 nexthop via 2001:db8:b::1 dev eth1 nexthop via 2001:db8::7 dev eth0",
      ],
    ];
    await eachRow(t, rows, async ([, family, line]) => {
      using scene = new VrfScene(KEYS, [
        "address add 10.0.0.2/24 dev eth0",
        "address add 2001:db8::2/64 dev eth0 nodad",
        "address add 10.1.0.2/24 dev eth1",
        "address add 2001:db8:b::2/64 dev eth1 nodad",
        line,
      ]);
      const read = (table: string): string[] =>
        runIn(
          scene.hosts.sandbox,
          "ip",
          `-${family}`,
          "route",
          "show",
          "table",
          table,
        )
          .split("\n").flatMap((line) => line.match(/ via \S+ dev \S+/g) ?? [])
          .sort();
      const all = read("main");
      const over = (name: string): string[] =>
        all.filter((hop) => hop.endsWith(name));
      const prevResult = { ...scene.prevResult, routes: [] };
      await scene.succeed("ADD", { prevResult });
      assertEquals([read("main"), read("1")], [over("eth1"), over("eth0")]);
      await scene.succeed("ADD", { prevResult });
      assertEquals([read("main"), read("1")], [over("eth1"), over("eth0")]);
      await scene.succeed("DEL", { prevResult });
      assertEquals(read("main"), all);
    }, ([name]) => name);
  },
);

rootTest("vrf.add() changes nothing if it refuses the input", async (t) => {
  const text = "configuration is expected to have a valid vrf name";
  const rows: [
    name: string,
    keys: Keys,
    refusal: [code: number, text: string],
    ifName?: string,
  ][] = [
    ["no name", {}, [7, text]],
    ["long name", { vrfname: "x".repeat(16) }, [7, text]],
    ["name with a slash", { vrfname: "a/b" }, [7, text]],
    ["name with a number", { vrfname: "vrf%d" }, [7, text]],
    ["another link", { vrfname: "eth1" }, [7, "Netlink eth1 is not a VRF"]],
    ["table", { ...KEYS, table: -1 }, [7, "table: expected at least 0"]],
    [
      "no result",
      { ...KEYS, prevResult: undefined },
      [7, "missing prevResult from earlier plugin"],
    ],
    ["no interface", KEYS, [4, "could not get link by name eth9"], "eth9"],
  ];
  await eachRow(t, rows, async ([, keys, refusal, ifName = "eth0"]) => {
    using scene = new VrfScene({}, []);
    await scene.fail("ADD", refusal, keys, { ifName });
    assertEquals(scene.links, ["eth0", "eth1"]);
  });
});

rootTest("vrf.check() reports each change", needsVrf, async (t) => {
  const rows: [name: string, change: string, keys: Keys, text: string][] = [
    ["no VRF", "link del blue", {}, 'VRF "blue" no longer exists'],
    [
      "another master",
      "link set eth0 nomaster",
      {},
      "failed to find eth0 associated to vrf blue",
    ],
    ["table", "link show", { table: 7 }, 'VRF "blue" has table 1, not 7'],
  ];
  await eachRow(t, rows, async ([, change, keys, text]) => {
    using scene = new VrfScene(KEYS);
    const { json: prevResult } = await scene.succeed("ADD");
    await scene.succeed("CHECK", { prevResult });
    scene.ip(change);
    await scene.fail("CHECK", [999, text], { ...keys, prevResult });
  });
});

rootTest("vrf.del() succeeds if anything is missing", needsVrf, async (t) => {
  const none = { prevResult: undefined };
  const rows: [
    name: string,
    change: string,
    keys: Keys,
    links: string[],
    env?: Record<string, string>,
  ][] = [
    ["no interface", "link del eth0", none, ["eth1"]],
    ["no VRF", "link del blue", none, ["eth0", "eth1"]],
    ["out of the VRF", "link set eth0 nomaster", none, ["eth0", "eth1"]],
    ["another VRF", "link set eth0 nomaster", { vrfname: "red" }, [
      "eth0",
      "eth1",
      "blue 1",
    ]],
    ["bad table and result", "link show", { table: "x", prevResult: 1 }, [
      "eth0",
      "eth1",
    ]],
    ["bad name", "link show", { vrfname: 1 }, ["eth0 blue", "eth1", "blue 1"]],
    ["another link's name", "link show", { vrfname: "eth1" }, [
      "eth0 blue",
      "eth1",
      "blue 1",
    ]],
    ["no CNI_NETNS", "link show", none, ["eth0 blue", "eth1", "blue 1"], {
      CNI_NETNS: "",
    }],
    ["no namespace", "link show", none, ["eth0 blue", "eth1", "blue 1"], {
      CNI_NETNS: "/run/netns/none",
    }],
  ];
  await eachRow(t, rows, async ([, change, keys, links, env = {}]) => {
    using scene = new VrfScene(KEYS);
    await scene.succeed("ADD");
    scene.ip(change);
    const { exitCode, stdout } = await scene.run("DEL", keys, { env });
    assertEquals([exitCode, stdout], [0, ""]);
    assertEquals(scene.links, links);
    assertEquals((await scene.run("DEL", keys, { env })).exitCode, 0);
  });
});

rootTest(
  "vrf.del() without prevResult keeps the interface of another attachment",
  needsVrf,
  async () => {
    using scene = new VrfScene(KEYS);
    await scene.succeed("ADD");
    const { state: added } = scene;
    const alias = ["alias", "cni/net1/other/eth0"];
    runIn(scene.hosts.host, "ip", "link", "set", "host-eth0", ...alias);
    await scene.succeed("DEL", { prevResult: undefined });
    assertEquals(scene.state, added);
  },
);

rootTest(
  "vrf.del() keeps an interface with a different master",
  needsVrf,
  async () => {
    using scene = new VrfScene(KEYS);
    scene.ip("link add red type vrf table 9", "link set eth0 master red");
    const text = "interface eth0 has already a master set: red";
    await scene.fail("ADD", [7, text]);
    await scene.succeed("DEL", { prevResult: undefined });
    assertEquals(scene.links, ["eth0 red", "eth1", "red 9"]);
  },
);
