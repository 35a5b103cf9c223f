import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { TwoPairs } from "./testing.ts";
import { NetlinkError } from "../netlink/error.ts";
import { RouteEntry } from "./route_entry.ts";

/** A host with two veth pairs, and the tested object. */
class Fixture extends TwoPairs {
  readonly entries = this.rtnl.route;

  /** Lists the routes to a destination, in all tables and of all types. */
  find(destination: string): RouteEntry[] {
    const wanted = Cidr.parse(destination);
    return this.entries.listEntries().filter((one) =>
      one.destination.equals(wanted)
    );
  }

  /** Returns the only route to a destination. */
  get(destination: string): RouteEntry {
    const [entry, ...others] = this.find(destination);
    assertEquals(others, []);
    if (entry === undefined) throw new Error(`No route to ${destination}`);
    return entry;
  }

  /** Returns a table as `ip` shows it, without its number. */
  show(family: 4 | 6, table: number): unknown[] {
    const { host } = this.hosts;
    const all = ["route", "show", "table", "all"];
    const name = table === 254 ? "main" : `${table}`;
    return ipJson(host, `-${family}`, ...all)
      .filter((route: Record<string, unknown>) => route["table"] === name)
      .map(({ table: _, ...route }: Record<string, unknown>) => route);
  }
}

/** Arguments of `ip route add`; the destination comes first. */
const ROUTES: readonly string[] = [
  "10.9.0.0/16 via 10.0.0.2",
  "10.9.0.0/16 dev veth0 scope link src 10.0.0.1 proto static",
  "10.9.0.0/16 dev veth0 scope host proto kernel metric 7",
  "10.9.0.0/16 via 10.0.0.2 mtu lock 1400 advmss 1360 window 9000 " +
  "initcwnd 20 rto_min 50ms quickack 1 congctl cubic features ecn",
  "10.9.0.0/16 via 10.0.0.2 tos 0x10 proto 250",
  "10.9.0.0/16 via 192.0.2.1 dev veth0 onlink",
  "10.9.0.0/16 via inet6 2001:db8::2 dev veth0",
  "10.9.0.0/16 metric 5 nexthop via 10.0.0.2 weight 3 " +
  "nexthop via 192.0.2.1 dev veth0 onlink",
  "multicast 239.9.0.0/16 dev veth0",
  "unreachable 10.9.0.0/16",
  "blackhole 10.9.0.0/16 metric 9",
  "0.0.0.0/0 via 10.0.0.2 proto dhcp metric 100",
  "2001:db8:9::/48 via 2001:db8::2",
  "2001:db8:9::/48 dev veth0 src 2001:db8::1 metric 20 proto kernel pref high",
  "2001:db8:9::/48 via fe80::1 dev veth0 mtu 1400 hoplimit 3",
  "2001:db8:9::/48 via 2001:db8:77::1 dev veth0 onlink proto ra",
  "2001:db8:9::/48 from 2001:db8:8::/48 via 2001:db8::2",
  "2001:db8:9::/48 nexthop via 2001:db8::2 weight 3 " +
  "nexthop via 2001:db8::3 dev veth0",
  "unreachable 2001:db8:9::/48",
  "::/0 via 2001:db8::2 pref low",
];

/** Returns the first word that is a destination. */
function destinationOf(line: string): string {
  return /\S+\/\d+/.exec(line)?.[0] ?? "";
}

rootTest("RouteRequests.append() makes an exact copy", async (t) => {
  await eachRow(t, ROUTES, (line) => {
    using fixture = new Fixture();
    const { entries } = fixture;
    fixture.ip(`route add ${line}`);
    const destination = destinationOf(line);
    const { family } = Cidr.parse(destination);
    const before = fixture.show(family, 254);
    const entry = fixture.get(destination);
    assertEquals(entry.family, family);
    for (const table of [100, 5000]) {
      const copy = entry.inTable(table);
      assertEquals(copy.table, table);
      entries.append(copy);
      const [shown, ...others] = fixture.show(family, table);
      assertEquals(others, []);
      assertStringIncludes(JSON.stringify(before), JSON.stringify(shown));
      const error = assertThrows(() => entries.append(copy), NetlinkError);
      assertEquals(error.errno, "EEXIST");
    }
    // And back again.
    entries.delEntry(entry);
    assertEquals(fixture.find(destination).length, 2);
    entries.append(entry);
    assertEquals(fixture.show(family, 254), before);
    for (const table of [100, 5000]) {
      entries.delEntry(entry.inTable(table));
      assertEquals(fixture.show(family, table), []);
    }
    const gone = entry.inTable(100);
    const error = assertThrows(() => entries.delEntry(gone), NetlinkError);
    assertEquals(error.errno, "ESRCH");
  });
});

rootTest("RouteRequests.append() copies next hop objects", async (t) => {
  const rows: [name: string, setUp: string[], destination: string][] = [
    ["IPv4", [
      "nexthop add id 5 via 10.0.0.2 dev veth0",
      "route add 10.9.0.0/16 nhid 5",
    ], "10.9.0.0/16"],
    ["IPv6", [
      "nexthop add id 6 via 2001:db8::2 dev veth0",
      "route add 2001:db8:9::/48 nhid 6",
    ], "2001:db8:9::/48"],
    ["a group", [
      "nexthop add id 5 via 10.0.0.2 dev veth0",
      "nexthop add id 7 via 10.0.1.2 dev veth1",
      "nexthop add id 8 group 5/7",
      "route add 10.9.0.0/16 nhid 8",
    ], "10.9.0.0/16"],
  ];
  await eachRow(t, rows, ([, setUp, destination]) => {
    using fixture = new Fixture();
    for (const line of setUp) fixture.ip(line);
    const entry = fixture.get(destination);
    const before = JSON.stringify(fixture.show(entry.family, 254));
    fixture.entries.append(entry.inTable(100));
    const [shown] = fixture.show(entry.family, 100);
    assertStringIncludes(before, JSON.stringify(shown));
    fixture.entries.delEntry(entry);
    assertEquals(fixture.get(destination).table, 100);
  });
});

/** Formats the next hops of a route as one line. */
function waysOf(entry: RouteEntry | undefined): string | undefined {
  return entry?.nextHops.map(({ ifindex, gateway }) => `${gateway}@${ifindex}`)
    .join(" ");
}

rootTest("RouteEntry.over() keeps one link, besides() the others", () => {
  using fixture = new Fixture();
  const { first, second } = fixture;
  fixture.ip(
    "route add 10.9.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.1.2 " +
      "nexthop via 10.0.0.3",
  );
  const entry = fixture.get("10.9.0.0/16");
  assertEquals(
    waysOf(entry),
    `10.0.0.2@${first} 10.0.1.2@${second} 10.0.0.3@${first}`,
  );
  assertEquals(entry.isOnlyOver(first), false);
  const part = entry.over(first);
  assertEquals(waysOf(part), `10.0.0.2@${first} 10.0.0.3@${first}`);
  assertEquals(part?.isOnlyOver(first), true);
  assertEquals(waysOf(entry.over(second)), `10.0.1.2@${second}`);
  assertEquals(entry.over(999), undefined);
  assertEquals(waysOf(entry.besides(first)), `10.0.1.2@${second}`);
  assertEquals(waysOf(entry.besides(second)), waysOf(part));
  assertEquals(entry.besides(999) === entry, true);
  assertEquals(entry.inTable(100).way, entry.way);
  assertEquals([part, entry.over(second)].map((one) => one?.way), [
    "10.9.0.0/16,0,10.0.0.2,10.0.0.3",
    "10.9.0.0/16,0,10.0.1.2",
  ]);
  const single = fixture.get("10.0.0.0/24");
  assertEquals(single.over(first) === single, true);
  assertEquals(single.over(second), undefined);
  assertEquals(single.besides(first), undefined);
  assertEquals(single.besides(second) === single, true);
  // A single next hop is a route like any other.
  fixture.entries.append((entry.over(second) ?? entry).inTable(100));
  const [shown] = fixture.show(4, 100) as Record<string, unknown>[];
  assertEquals([shown?.["gateway"], shown?.["dev"]], ["10.0.1.2", "veth1"]);
});

rootTest("RouteRequests.delEntry() leaves other IPv6 next hops", () => {
  using fixture = new Fixture();
  const { first, second, entries } = fixture;
  // As two plugins add them, each for its own interface.
  fixture.ip("route append ::/0 via 2001:db8::2");
  fixture.ip("route append ::/0 via 2001:db8:1::2");
  fixture.ip("route append ::/0 via 2001:db8:1::3");
  const entry = fixture.get("::/0");
  assertEquals(entry.nextHops.length, 3);
  const part = entry.over(second);
  if (part === undefined) throw new Error("No way over the second link");
  entries.delEntry(part);
  assertEquals(waysOf(fixture.get("::/0")), `2001:db8::2@${first}`);
  entries.append(part);
  assertEquals(fixture.get("::/0").nextHops.length, 3);
});

rootTest("RouteRequests.listEntries() lists all tables and types", async () => {
  using fixture = new Fixture();
  fixture.ip("route add blackhole 10.8.0.0/16 table 7");
  fixture.ip("route add 2001:db8:9::/48 dev veth0 table 5000 proto ra");
  const list = (): string[] =>
    fixture.entries.listEntries()
      .map(({ destination, table, isUnicast, origin }) =>
        `${destination} ${table} ${isUnicast} ${origin}`
      );
  for (
    const line of [
      "10.0.0.0/24 254 true kernel",
      "10.0.0.1/32 255 false kernel",
      "10.0.0.255/32 255 false kernel",
      "10.8.0.0/16 7 false others",
      "2001:db8::/64 254 true kernel",
      "2001:db8::1/128 255 false kernel",
      "2001:db8:9::/48 5000 true router",
      "ff00::/8 255 false kernel",
    ]
  ) {
    // The kernel adds the routes of IPv6 addresses in the background.
    await eventually(`there is ${line}`, () => list().includes(line));
  }
});

rootTest("RouteEntry.of() is what RouteRequests would add", async (t) => {
  const rows = [
    { destination: "0.0.0.0/0", gateway: "10.0.0.2", table: 100 },
    { destination: "::/0", gateway: "2001:db8::2", table: 5000 },
    { destination: "10.9.0.0/16", source: "10.0.0.1", scope: 253 },
  ];
  await eachRow(t, rows, ({ destination, gateway, source, ...rest }) => {
    using fixture = new Fixture();
    const route = {
      ...rest,
      destination: Cidr.parse(destination),
      ifindex: fixture.first,
      gateway: gateway === undefined ? undefined : Ip.parse(gateway),
      preferredSource: source === undefined ? undefined : Ip.parse(source),
    };
    const entry = RouteEntry.of(route);
    assertEquals(entry.destination, route.destination);
    assertEquals(entry.table, rest.table ?? 254);
    assertEquals(entry.isDefault, destination.endsWith("/0"));
    assertEquals(entry.hasGateway, gateway !== undefined);
    assertEquals(entry.preferredSource, route.preferredSource);
    fixture.entries.append(entry);
    const shown = fixture.show(entry.family, entry.table);
    fixture.entries.delEntry(entry);
    fixture.rtnl.route.prepend(route);
    assertEquals(fixture.show(entry.family, entry.table), shown);
  }, ({ destination }) => destination);
});
