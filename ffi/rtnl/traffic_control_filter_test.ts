import { assert, assertEquals, assertMatch } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ControlledLink, errnoOf } from "./testing.ts";
import { runIn } from "../../testing/ip_json.ts";
import { handleOf, Parent } from "./traffic_control.ts";
import { MATCH_ALL, matchNetwork, Protocol } from "./traffic_control_filter.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

const HTB = { kind: "htb", defaultClass: 0x30 } as const;

rootTest("FilterRequests redirects ingress with any qdisc", async (t) => {
  const rows: [kind: "ingress" | "clsact", parent: number, tc: string][] = [
    ["ingress", handleOf(0xffff), "parent ffff:"],
    ["clsact", Parent.ClsactIngress, "ingress"],
  ];
  await eachRow(t, rows, ([kind, parent, tc]) => {
    using link = new ControlledLink();
    const { traffic, ifindex } = link;
    traffic.qdisc.add({ ifindex, parent: Parent.Ingress, kind });
    const show = (): string =>
      runIn(link.host, "tc", "filter", "show", "dev", "v0", ...tc.split(" "))
        .replace(/index \d+/, "");
    const filter = {
      ifindex,
      parent,
      priority: 1,
      protocol: Protocol.All,
      keys: MATCH_ALL,
      classId: handleOf(1, 1),
      redirectTo: link.other,
    };
    traffic.filter.add(filter);
    const ours = show();
    const [found] = traffic.filter.list(ifindex, Parent.ClsactIngress);
    assertEquals(found, {
      ...filter,
      parent: found?.parent ?? 0,
      kind: "u32",
      handle: 0x8000_0800,
    });
    traffic.filter.delPriority(filter);
    assertEquals(show(), "");
    runIn(
      link.host,
      "tc",
      ...`filter add dev v0 ${tc} protocol all prio 1 u32`.split(" "),
      ..."match u32 0 0 flowid 1:1 action".split(" "),
      ..."mirred egress redirect dev ifb7".split(" "),
    );
    assertEquals(ours, show());
  });
});

rootTest("FilterRequests lets a different link receive packets", () => {
  using link = new ControlledLink();
  const { traffic, ifindex } = link;
  traffic.qdisc.add({ ifindex, parent: Parent.Ingress, kind: "clsact" });
  traffic.filter.add({
    ifindex,
    parent: Parent.ClsactIngress,
    priority: 1,
    protocol: Protocol.Ipv4,
    keys: MATCH_ALL,
    classId: handleOf(1, 1),
    redirectTo: link.other,
    isReceived: true,
  });
  assertMatch(
    runIn(link.host, "tc", ..."filter show dev v0 ingress".split(" ")),
    /mirred \(Ingress Redirect to device ifb7\) stolen/,
  );
});

rootTest("FilterRequests adds, lists and deletes filters of networks", () => {
  using link = new ControlledLink();
  const { traffic, ifindex } = link;
  link.addRoot(HTB);
  const parent = handleOf(1);
  assertEquals(traffic.filter.list(ifindex, parent), []);
  const rows = [
    ["10.1.0.0/16", "source", "ip", 16, Protocol.Ipv4],
    ["10.2.0.0/16", "destination", "ip", 16, Protocol.Ipv4],
    ["2001:db8:1::/49", "source", "ip6", 15, Protocol.Ipv6],
  ] as const;
  for (const [network, side, , priority, protocol] of rows) {
    traffic.filter.add({
      ifindex,
      parent,
      priority,
      protocol,
      keys: matchNetwork(Cidr.parse(network), side),
      classId: handleOf(1, 1),
    });
  }
  const ours = link.tc("filter", "show");
  const [first, ...others] = traffic.filter.list(ifindex, parent);
  assertEquals([first?.priority, others.length], [15, 2]);
  if (first !== undefined) traffic.filter.del(first);
  assertEquals(traffic.filter.list(ifindex, parent), others);
  for (const { priority, protocol } of others.slice(0, 1)) {
    traffic.filter.delPriority({ ifindex, parent, priority, protocol });
  }
  assertEquals(traffic.filter.list(ifindex, parent), []);

  traffic.qdisc.del(ifindex, Parent.Root);
  link.addRoot(HTB);
  for (const [network, side, family, priority] of rows) {
    runIn(
      link.host,
      "tc",
      ..."filter add dev v0 parent 1: protocol".split(" "),
      ...`${family === "ip" ? "ip" : "ipv6"} prio ${priority} u32`.split(" "),
      ...`match ${family} ${side === "source" ? "src" : "dst"} ${network}`
        .split(" "),
      ..."flowid 1:1".split(" "),
    );
  }
  assertEquals(ours, link.tc("filter", "show"));
});

rootTest("FilterRequests.del() leaves other filters of the priority", () => {
  using link = new ControlledLink();
  const { traffic, ifindex } = link;
  traffic.qdisc.add({ ifindex, parent: Parent.Ingress, kind: "clsact" });
  const parent = Parent.ClsactIngress;
  const shared = { ifindex, parent, priority: 7, protocol: Protocol.All };
  const match = { keys: MATCH_ALL, classId: handleOf(1, 1) };
  traffic.filter.add({ ...shared, ...match });
  traffic.filter.add({ ...shared, ...match, redirectTo: link.other });
  const [plain, redirect] = traffic.filter.list(ifindex, parent);
  assertEquals([plain?.redirectTo, redirect?.redirectTo], [
    undefined,
    link.other,
  ]);
  assert(redirect !== undefined);
  traffic.filter.del(redirect);
  assertEquals(traffic.filter.list(ifindex, parent), [plain]);
  assertEquals(errnoOf(() => traffic.filter.del(redirect)), "ENOENT");
});

testRows("matchNetwork() compares the words that the prefix covers", [
  ["0.0.0.0/0", ["0 0 0"], ["0 0 0"]],
  ["::/0", ["0 0 0"], ["0 0 0"]],
  ["10.1.2.3/32", ["a010203 ffffffff 12"], ["a010203 ffffffff 16"]],
  ["10.1.2.3/8", ["a000000 ff000000 12"], ["a000000 ff000000 16"]],
  ["128.0.0.0/1", ["80000000 80000000 12"], ["80000000 80000000 16"]],
  ["2001:db8::/32", ["20010db8 ffffffff 8"], ["20010db8 ffffffff 24"]],
  ["2001:db8:8000::/33", ["20010db8 ffffffff 8", "80000000 80000000 12"], [
    "20010db8 ffffffff 24",
    "80000000 80000000 28",
  ]],
  [
    "::1/128",
    ["0 ffffffff 8", "0 ffffffff 12", "0 ffffffff 16", "1 ffffffff 20"],
    ["0 ffffffff 24", "0 ffffffff 28", "0 ffffffff 32", "1 ffffffff 36"],
  ],
], ([network, source, destination]: [string, string[], string[]]) => {
  const [from, to] = (["source", "destination"] as const).map((side) =>
    matchNetwork(Cidr.parse(network), side).map(({ mask, value, offset }) =>
      `${value.toString(16)} ${mask.toString(16)} ${offset}`
    )
  );
  assertEquals([from, to], [source, destination]);
});
