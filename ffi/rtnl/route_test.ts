import { assertEquals, assertThrows } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { TwoPairs } from "./testing.ts";
import { NetlinkError } from "../netlink/error.ts";
import type { Route, RouteFilter, RouteRequests } from "./route.ts";

/** Source: include/uapi/linux/rtnetlink.h `rt_scope_t`. */
const RT_SCOPE_LINK = 253;

/** A host with two veth pairs, and the tested object. */
class Fixture extends TwoPairs {
  readonly route: RouteRequests = this.rtnl.route;

  /** Returns the routes to a destination in all tables, as `ip` shows them. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  show(destination: string): any[] {
    const family = destination.includes(":") ? "-6" : "-4";
    return ipJson(this.hosts.host, family, "route", "show", "table", "all")
      .filter(({ dst, type }: Record<string, string>) =>
        dst === destination && type === "unicast"
      );
  }

  errnoOf(work: () => unknown): string {
    return assertThrows(work, NetlinkError).errno;
  }
}

/** A route with addresses as text. */
type RouteText =
  & Omit<Route, "destination" | "gateway" | "preferredSource">
  & { destination: string; gateway?: string; preferredSource?: string };

function parseRoute(
  { destination, gateway, preferredSource, ...rest }: RouteText,
): Route {
  return {
    ...rest,
    destination: Cidr.parse(destination),
    gateway: gateway === undefined ? undefined : Ip.parse(gateway),
    preferredSource: preferredSource === undefined
      ? undefined
      : Ip.parse(preferredSource),
  };
}

/** Formats a listed route as one line. */
function format(route: Route): string {
  const { destination, gateway, ifindex, table } = route;
  return `${destination} via ${gateway} dev ${ifindex} table ${table}`;
}

/** Routes, and how `ip` shows them. */
const ROUTES: {
  name: string;
  route: RouteText;
  dst: string;
  expected: Record<string, unknown>;
}[] = [
  {
    name: "IPv4 via a gateway",
    route: { destination: "10.9.0.0/16", gateway: "10.0.0.2" },
    dst: "10.9.0.0/16",
    expected: {
      gateway: "10.0.0.2",
      dev: "veth0",
      protocol: "boot",
      scope: "global",
      flags: [],
      table: "main",
      metrics: undefined,
    },
  },
  {
    name: "IPv6 via a gateway",
    route: { destination: "2001:db8:9::/48", gateway: "2001:db8::2" },
    dst: "2001:db8:9::/48",
    expected: {
      gateway: "2001:db8::2",
      dev: "veth0",
      protocol: "boot",
      metric: 1024,
      flags: [],
      table: "main",
    },
  },
  {
    name: "IPv4 default",
    route: { destination: "0.0.0.0/0", gateway: "10.0.0.2" },
    dst: "default",
    expected: { gateway: "10.0.0.2" },
  },
  {
    name: "IPv4 on the link, with source and scope",
    route: {
      destination: "10.9.0.1/32",
      ifindex: 2,
      scope: RT_SCOPE_LINK,
      preferredSource: "10.0.1.1",
    },
    dst: "10.9.0.1",
    expected: {
      dev: "veth0",
      gateway: undefined,
      scope: "link",
      prefsrc: "10.0.1.1",
    },
  },
  {
    name: "IPv6 on the link, with source",
    route: {
      destination: "2001:db8:9::1/128",
      ifindex: 2,
      preferredSource: "2001:db8:1::1",
    },
    dst: "2001:db8:9::1",
    expected: { dev: "veth0", prefsrc: "2001:db8:1::1" },
  },
  {
    name: "IPv4 with metrics and priority",
    route: {
      destination: "10.9.0.0/16",
      gateway: "10.0.0.2",
      mtu: 1400,
      advmss: 1360,
      priority: 50,
    },
    dst: "10.9.0.0/16",
    expected: { metrics: [{ mtu: 1400, advmss: 1360 }], metric: 50 },
  },
  {
    name: "IPv6 with metrics and priority",
    route: {
      destination: "2001:db8:9::/48",
      gateway: "2001:db8::2",
      mtu: 1400,
      advmss: 1360,
      priority: 50,
    },
    dst: "2001:db8:9::/48",
    expected: { metrics: [{ mtu: 1400, advmss: 1360 }], metric: 50 },
  },
  {
    name: "IPv4 in a table of eight bits",
    route: { destination: "10.9.0.0/16", gateway: "10.0.0.2", table: 255 - 5 },
    dst: "10.9.0.0/16",
    expected: { table: "250" },
  },
  {
    name: "IPv4 in a table of more than eight bits",
    route: { destination: "10.9.0.0/16", gateway: "10.0.0.2", table: 256 },
    dst: "10.9.0.0/16",
    expected: { table: "256" },
  },
  {
    name: "IPv6 in the last table",
    route: {
      destination: "2001:db8:9::/48",
      gateway: "2001:db8::2",
      table: 2 ** 32 - 1,
    },
    dst: "2001:db8:9::/48",
    expected: { table: "4294967295" },
  },
  {
    name: "IPv4 via a gateway that only this route believes in",
    route: {
      destination: "10.9.0.0/16",
      gateway: "192.0.2.1",
      ifindex: 2,
      isOnLink: true,
    },
    dst: "10.9.0.0/16",
    expected: { gateway: "192.0.2.1", flags: ["onlink"] },
  },
  {
    name: "IPv6 via a gateway that only this route believes in",
    route: {
      destination: "2001:db8:9::/48",
      gateway: "2001:db8:77::1",
      ifindex: 2,
      isOnLink: true,
    },
    dst: "2001:db8:9::/48",
    expected: { gateway: "2001:db8:77::1", flags: ["onlink"] },
  },
];

for (const verb of ["add", "prepend", "replace"] as const) {
  rootTest(
    `RouteRequests.${verb}() makes routes as ip shows them`,
    async (t) => {
      await eachRow(t, ROUTES, ({ route, dst, expected }) => {
        using fixture = new Fixture();
        fixture.route[verb](parseRoute(route));
        const [shown, ...others] = fixture.show(dst);
        assertEquals(others, []);
        assertEquals(
          Object.keys(expected).map((key) => [key, shown?.[key]]),
          Object.entries(expected),
        );
      }, ({ name }) => name);
    },
  );
}

rootTest("RouteRequests.list() returns what was added", async (t) => {
  await eachRow(t, ROUTES, ({ route }) => {
    using fixture = new Fixture();
    const added = parseRoute(route);
    fixture.route.add(added);
    const { family } = added.destination;
    const listed = fixture.route.list({ family, table: added.table ?? 254 })
      .filter(({ destination }) => destination.equals(added.destination));
    assertEquals(listed, [{
      ...added,
      ifindex: 2,
      scope: added.scope ?? 0,
      table: added.table ?? 254,
      priority: added.priority ?? (family === 6 ? 1024 : undefined),
      mtu: added.mtu,
      advmss: added.advmss,
      isOnLink: added.isOnLink ?? false,
    }]);
  }, ({ name }) => name);
});

rootTest("RouteRequests.del() deletes what it is given", async (t) => {
  await eachRow(t, ROUTES, ({ route, dst }) => {
    using fixture = new Fixture();
    const added = parseRoute(route);
    fixture.route.add(added);
    fixture.route.del(added);
    assertEquals(fixture.show(dst), []);
    assertEquals(fixture.errnoOf(() => fixture.route.del(added)), "ESRCH");
  }, ({ name }) => name);
});

rootTest("RouteRequests.del() leaves routes that differ", async (t) => {
  const rows: [name: string, kept: RouteText, deleted: Partial<RouteText>][] = [
    ["link", { destination: "10.9.0.0/16", ifindex: 2 }, { ifindex: 3 }],
    ["table", { destination: "10.9.0.0/16", ifindex: 2 }, { table: 5000 }],
    ["priority", { destination: "10.9.0.0/16", ifindex: 2, priority: 1 }, {
      priority: 2,
    }],
    ["gateway", { destination: "10.9.0.0/16", gateway: "10.0.0.2" }, {
      gateway: "10.0.0.3",
    }],
    [
      "scope",
      { destination: "10.9.0.0/16", ifindex: 2, scope: RT_SCOPE_LINK },
      { scope: 0 },
    ],
    ["gateway of IPv6", {
      destination: "2001:db8:9::/48",
      gateway: "2001:db8::2",
    }, { gateway: "2001:db8::3" }],
  ];
  await eachRow(t, rows, ([, kept, deleted]) => {
    using fixture = new Fixture();
    fixture.route.add(parseRoute(kept));
    const other = parseRoute({ ...kept, ...deleted });
    assertEquals(fixture.errnoOf(() => fixture.route.del(other)), "ESRCH");
    assertEquals(fixture.show(kept.destination).length, 1);
  });
});

rootTest("RouteRequests.del() matches any value by default", async (t) => {
  const rows: RouteText[] = [
    {
      destination: "10.9.0.0/16",
      ifindex: 2,
      scope: RT_SCOPE_LINK,
      priority: 7,
      mtu: 1400,
    },
    { destination: "2001:db8:9::/48", gateway: "2001:db8::2", priority: 7 },
  ];
  await eachRow(t, rows, (route) => {
    using fixture = new Fixture();
    fixture.route.add(parseRoute(route));
    fixture.route.del({ destination: Cidr.parse(route.destination) });
    assertEquals(fixture.show(route.destination), []);
  }, (route) => route.destination);
});

/** Two routes to one destination over different links, as two attachments add them. */
const RIVALS: [name: string, first: RouteText, second: RouteText][] = [
  [
    "IPv4",
    { destination: "10.9.0.0/16", gateway: "10.0.0.2" },
    { destination: "10.9.0.0/16", gateway: "10.0.1.2" },
  ],
  [
    "IPv6",
    { destination: "2001:db8:9::/48", gateway: "2001:db8::2" },
    { destination: "2001:db8:9::/48", gateway: "2001:db8:1::2" },
  ],
];

rootTest("RouteRequests.add() refuses an existing route", async (t) => {
  await eachRow(t, RIVALS, ([, first, second]) => {
    using fixture = new Fixture();
    const { route } = fixture;
    route.add(parseRoute(first));
    for (const other of [first, second].map(parseRoute)) {
      assertEquals(fixture.errnoOf(() => route.add(other)), "EEXIST");
    }
    route.add(parseRoute({ ...second, priority: 2000 }));
    assertEquals(fixture.show(first.destination).length, 2);
  });
});

rootTest("RouteRequests.replace() replaces the existing route", async (t) => {
  await eachRow(t, RIVALS, ([, first, second]) => {
    using fixture = new Fixture();
    fixture.route.replace(parseRoute(first));
    fixture.route.replace(parseRoute(second));
    const [{ gateway, dev }, ...others] = fixture.show(first.destination);
    assertEquals([gateway, dev], [second.gateway, "veth1"]);
    assertEquals(others, []);
  });
});

rootTest("RouteRequests.prepend() adds before existing routes", async (t) => {
  await eachRow(t, RIVALS, ([, first, second]) => {
    using fixture = new Fixture();
    const { route } = fixture;
    const both = [first, second].map(parseRoute);
    for (const one of both) route.prepend(one);
    for (const one of both) {
      assertEquals(fixture.errnoOf(() => route.prepend(one)), "EEXIST");
    }
    const list = (filter?: RouteFilter): string[] =>
      route.list(filter).map(format)
        .filter((line) => line.startsWith(first.destination));
    const lines = [
      `${first.destination} via ${first.gateway} dev 2 table 254`,
      `${second.destination} via ${second.gateway} dev 3 table 254`,
    ];
    // In IPv6 they are next hops of one route, in the order of addition.
    const isIpv4 = first.destination.includes(".");
    assertEquals(list(), isIpv4 ? lines.toReversed() : lines);
    assertEquals(list({ ifindex: fixture.first }), lines.slice(0, 1));
    assertEquals(list({ ifindex: fixture.second }), lines.slice(1));
    // Each can be deleted without the other.
    route.del(parseRoute({ ...first, ifindex: fixture.first }));
    assertEquals(list(), lines.slice(1));
  });
});

rootTest("RouteRequests.list() lists each next hop of a route", () => {
  using fixture = new Fixture();
  const { host } = fixture.hosts;
  const command = "ip route add 10.9.0.0/16 metric 7 mtu 1400 " +
    "nexthop via 10.0.0.2 dev veth0 weight 3 " +
    "nexthop via 192.0.2.1 dev veth1 onlink";
  const [name = "", ...args] = command.split(" ");
  runIn(host, name, ...args);
  const shared = {
    destination: Cidr.parse("10.9.0.0/16"),
    preferredSource: undefined,
    scope: 0,
    table: 254,
    priority: 7,
    mtu: 1400,
    advmss: undefined,
  };
  const listed = fixture.route.list({ family: 4 })
    .filter(({ priority }) => priority === 7);
  assertEquals(listed, [
    { ...shared, ifindex: 2, gateway: Ip.parse("10.0.0.2"), isOnLink: false },
    { ...shared, ifindex: 3, gateway: Ip.parse("192.0.2.1"), isOnLink: true },
  ]);
});

rootTest("RouteRequests.list() keeps sources of next hops apart", () => {
  using fixture = new Fixture();
  const { host } = fixture.hosts;
  for (const [index, device] of ["veth0", "veth1"].entries()) {
    const source = `2001:db8:99::${index + 1}`;
    runIn(host, "ip", "addr", "add", `${source}/128`, "dev", "lo", "nodad");
    const route = `2001:db8:9::/64 via fe80::9 dev ${device} src ${source}`;
    runIn(host, "ip", "-6", "route", "prepend", ...route.split(" "));
  }
  const listed = fixture.route.list({ family: 6 })
    .filter(({ gateway }) => gateway?.toString() === "fe80::9")
    .map(({ ifindex, preferredSource, isSourceUntold = false }) => [
      ifindex,
      preferredSource?.toString(),
      isSourceUntold,
    ]);
  assertEquals(listed, [
    [fixture.first, "2001:db8:99::1", false],
    [fixture.second, undefined, true],
  ]);
});

rootTest("RouteRequests.list() lists by family, link and table", async (t) => {
  using fixture = new Fixture();
  const { route, first, second } = fixture;
  for (const table of [100, 5000]) {
    route.add(
      parseRoute({ destination: "10.9.0.0/16", ifindex: first, table }),
    );
    route.add(
      parseRoute({ destination: "2001:db8:9::/48", ifindex: second, table }),
    );
  }
  const line = (destination: string, dev: number, table: number): string =>
    `${destination} via undefined dev ${dev} table ${table}`;
  const first4 = line("10.0.0.0/24", first, 254);
  const first6 = line("2001:db8::/64", first, 254);
  const second4 = line("10.0.1.0/24", second, 254);
  const second6 = line("2001:db8:1::/64", second, 254);
  const main = [first4, second4, first6, second6];
  const [small4, large4] = [100, 5000]
    .map((table) => line("10.9.0.0/16", first, table)) as [string, string];
  const [small6, large6] = [100, 5000]
    .map((table) => line("2001:db8:9::/48", second, table)) as [string, string];
  const rows: [name: string, filter: RouteFilter, expected: string[]][] = [
    ["main", {}, main],
    ["a family", { family: 6 }, [first6, second6]],
    ["a link", { ifindex: first }, [first4, first6]],
    ["a table", { table: 100 }, [small4, small6]],
    ["a table of more than eight bits", { table: 5000 }, [large4, large6]],
    ["a table and a link", { table: 5000, ifindex: second }, [large6]],
    ["a table that no route was ever in", { table: 7777 }, []],
    ["the same, by family", { table: 7777, family: 4 }, []],
    ["any table", { table: "any" }, [...main, small4, small6, large4, large6]],
    ["any table, by family and link", {
      table: "any",
      family: 4,
      ifindex: first,
    }, [small4, large4, first4]],
  ];
  await eachRow(t, rows, ([, filter, expected]) => {
    const lines = route.list(filter).map(format);
    assertEquals(lines.sort(), [...expected].sort());
  });
  await t.step("a link that is not there", () => {
    assertEquals(
      fixture.errnoOf(() => route.list({ ifindex: 999 })),
      "ENODEV",
    );
  });
});

rootTest("RouteRequests.list() lists a thousand routes", () => {
  using fixture = new Fixture();
  const first = Ip.parse("10.64.0.0");
  for (let i = 0; i < 1000; i++) {
    const destination = Cidr.host(first.add(BigInt(i)));
    fixture.route.add({ destination, ifindex: fixture.first });
  }
  const destinations = fixture.route.list({ family: 4 })
    .map(({ destination }) => String(destination));
  const expected = ipJson(fixture.hosts.host, "-4", "route").map((
    { dst }: { dst: string },
  ) => dst.includes("/") ? dst : `${dst}/32`);
  assertEquals(destinations, expected);
  assertEquals(new Set(destinations).size, 1002);
});

rootTest("RouteRequests throws what the kernel says", async (t) => {
  using fixture = new Fixture();
  const { route, first } = fixture;
  const rows: [name: string, route: RouteText, errno: string][] = [
    [
      "gateway out of reach",
      { destination: "10.9.0.0/16", gateway: "192.0.2.1" },
      "ENETUNREACH",
    ],
    [
      "gateway of IPv6 out of reach",
      { destination: "2001:db8:9::/48", gateway: "2001:db8:77::1" },
      "EHOSTUNREACH",
    ],
    ["host bits", { destination: "10.9.0.1/16", ifindex: first }, "EINVAL"],
    ["no such link", { destination: "10.9.0.0/16", ifindex: 999 }, "ENODEV"],
  ];
  for (const [name, text, errno] of rows) {
    await eachRow(t, ["add", "prepend", "replace"] as const, (verb) => {
      const work = (): void => route[verb](parseRoute(text));
      assertEquals(fixture.errnoOf(work), errno);
    }, (verb) => `${verb}(), ${name}`);
  }
});

rootTest(
  "RouteRequests names the table of the route that it looks up",
  async (t) => {
    const rows: [name: string, destination: string, table: number][] = [
      ["IPv4", "10.9.0.1", 100],
      ["IPv4, a table of more than eight bits", "10.8.0.1", 5000],
      ["IPv4, main", "10.0.0.2", 254],
      ["IPv4, local", "10.0.0.1", 255],
      ["IPv6", "2001:db8:9::1", 100],
    ];
    await eachRow(t, rows, ([, destination, table]) => {
      using fixture = new Fixture();
      runIn(
        fixture.hosts.host,
        "sh",
        "-ec",
        `ip rule add to 10.9.0.0/16 table 100
       ip route add 10.9.0.0/16 via 10.0.0.2 table 100
       ip rule add to 10.8.0.0/16 table 5000
       ip route add 10.8.0.0/16 via 10.0.0.2 table 5000
       ip -6 rule add to 2001:db8:9::/48 table 100
       ip -6 route add 2001:db8:9::/48 dev veth0 table 100`,
      );
      const ip = Ip.parse(destination);
      assertEquals([
        fixture.route.lookUp({ destination: ip }).table,
        fixture.route.findMatch(ip)?.table,
      ], [table, table]);
    }, ([name]) => name);
  },
);
