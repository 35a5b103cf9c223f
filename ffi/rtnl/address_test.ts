import { assertEquals, assertThrows } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { NetlinkError } from "../netlink/error.ts";
import { inNetns } from "../netns.ts";
import { writeSysctl } from "../sysctl.ts";
import type { AddressRequests } from "./address.ts";
import { Rtnl } from "./mod.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** A host with a veth pair. Both ends are up and have no link-local addresses. */
class Fixture implements Disposable {
  readonly #stack = new DisposableStack();
  readonly hosts = this.#stack.use(TestHosts.create());
  readonly rtnl = this.#stack.use(Rtnl.open(this.hosts.host.path));
  readonly address: AddressRequests = this.rtnl.address;
  readonly ifindex: number;

  constructor() {
    const { host, sandbox } = this.hosts;
    const key = "net/ipv6/conf/default/addr_gen_mode";
    inNetns(host, () => writeSysctl(key, "1"));
    const peer = { netns: sandbox, name: "eth0" };
    this.ifindex = this.rtnl.link.addVeth({ name: "veth0", peer }).index;
    runIn(sandbox, "ip", "link", "set", "eth0", "up");
  }

  /** Returns the veth pair's addresses as `ip` shows them. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  show(): any[] {
    const { host } = this.hosts;
    return ipJson(host, "address", "show", "dev", "veth0")[0].addr_info;
  }

  /** Lists the routes that the kernel added for addresses. */
  prefixRoutes(): string[] {
    return ["-4", "-6"].flatMap((family) =>
      ipJson(this.hosts.host, family, "route", "show", "proto", "kernel")
    ).map(({ dst }) => dst);
  }

  errnoOf(work: (address: AddressRequests) => void): string {
    return assertThrows(() => work(this.address), NetlinkError).errno;
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

rootTest("AddressRequests.add() adds addresses as ip shows them", async (t) => {
  const rows: { text: string; expected: Record<string, unknown> }[] = [
    {
      text: "10.1.2.3/24",
      expected: { family: "inet", broadcast: "10.1.2.255", scope: "global" },
    },
    {
      text: "10.1.2.2/31",
      expected: { family: "inet", broadcast: undefined, scope: "global" },
    },
    {
      text: "10.1.2.3/32",
      expected: { family: "inet", broadcast: undefined, scope: "global" },
    },
    {
      text: "2001:db8::1/64",
      expected: { family: "inet6", nodad: true, scope: "global" },
    },
    {
      text: "2001:db8::1/128",
      expected: { family: "inet6", nodad: true, scope: "global" },
    },
    {
      text: "fe80::1/64",
      expected: { family: "inet6", nodad: true, scope: "link" },
    },
  ];
  await eachRow(t, rows, ({ text, expected }) => {
    using fixture = new Fixture();
    const address = Cidr.parse(text);
    fixture.address.add({ ifindex: fixture.ifindex, address });
    const [shown, ...others] = fixture.show();
    assertEquals(others, []);
    assertEquals(`${shown.local}/${shown.prefixlen}`, text);
    assertEquals(
      Object.keys(expected).map((key) => [key, shown[key]]),
      Object.entries(expected),
    );
    assertEquals(shown.valid_life_time, 0xffffffff);
    assertEquals([shown.tentative, shown.noprefixroute], [
      undefined,
      undefined,
    ]);
  }, ({ text }) => text);
});

rootTest("AddressRequests.add() can leave out the prefix route", () => {
  using fixture = new Fixture();
  const { address, ifindex } = fixture;
  for (const text of ["10.1.2.3/24", "2001:db8::1/64"]) {
    address.add({ ifindex, address: Cidr.parse(text), noPrefixRoute: true });
  }
  assertEquals(fixture.show().map(({ noprefixroute }) => noprefixroute), [
    true,
    true,
  ]);
  assertEquals(fixture.prefixRoutes(), []);
  for (const text of ["10.1.3.3/24", "2001:db8:1::1/64"]) {
    address.add({ ifindex, address: Cidr.parse(text), noPrefixRoute: false });
  }
  assertEquals(fixture.prefixRoutes(), ["10.1.3.0/24", "2001:db8:1::/64"]);
});

rootTest(
  "AddressRequests.add() refuses duplicates, replace() not",
  async (t) => {
    await eachRow(t, ["10.1.2.3/24", "2001:db8::1/64"], (text) => {
      using fixture = new Fixture();
      const { ifindex } = fixture;
      const address = Cidr.parse(text);
      fixture.address.replace({ ifindex, address });
      assertEquals(
        fixture.errnoOf((addresses) => addresses.add({ ifindex, address })),
        "EEXIST",
      );
      fixture.address.replace({ ifindex, address });
      assertEquals(fixture.show().length, 1);
    });
  },
);

rootTest("AddressRequests throws what the kernel says", () => {
  using fixture = new Fixture();
  const { ifindex } = fixture;
  const [ipv4, ipv6] = ["10.1.2.3/24", "2001:db8::1/64"].map(Cidr.parse);
  for (const address of [ipv4, ipv6]) {
    if (address === undefined) continue;
    assertEquals(
      fixture.errnoOf((it) => it.add({ ifindex: 999, address })),
      "ENODEV",
    );
    assertEquals(
      fixture.errnoOf((it) => it.replace({ ifindex: 999, address })),
      "ENODEV",
    );
    assertEquals(
      fixture.errnoOf((it) => it.del(ifindex, address)),
      "EADDRNOTAVAIL",
    );
  }
  assertEquals(fixture.errnoOf((it) => it.list({ ifindex: 999 })), "ENODEV");
});

rootTest("AddressRequests.add() says that IPv6 is off", () => {
  using fixture = new Fixture();
  const { hosts, ifindex } = fixture;
  const key = "net/ipv6/conf/veth0/disable_ipv6";
  inNetns(hosts.host, () => writeSysctl(key, "1"));
  const address = Cidr.parse("2001:db8::1/64");
  assertEquals(
    fixture.errnoOf((it) => it.add({ ifindex, address })),
    "EACCES",
  );
});

rootTest("AddressRequests.del() takes away that address alone", () => {
  using fixture = new Fixture();
  const { address, ifindex } = fixture;
  const cidrs = [
    "10.1.2.3/24",
    "10.1.2.4/24",
    "2001:db8::1/64",
    "2001:db8::2/64",
  ]
    .map(Cidr.parse);
  for (const cidr of cidrs) address.add({ ifindex, address: cidr });
  for (const at of [1, 2]) address.del(ifindex, cidrs[at] ?? Cidr.parse(""));
  assertEquals(fixture.show().map(({ local }) => local), [
    "10.1.2.3",
    "2001:db8::2",
  ]);
});

rootTest("AddressRequests.list() lists by link and family", async (t) => {
  using fixture = new Fixture();
  const { address, ifindex, hosts } = fixture;
  for (const text of ["10.1.2.3/24", "2001:db8::1/64"]) {
    address.add({ ifindex, address: Cidr.parse(text) });
  }
  runIn(
    hosts.host,
    "ip",
    "address",
    "add",
    "192.0.2.1",
    "peer",
    "192.0.2.2/32",
    "dev",
    "lo",
  );
  const rows: [string, Parameters<AddressRequests["list"]>[0], string[]][] = [
    ["all", undefined, [
      "127.0.0.1/8",
      // Our address, not the other end's.
      "192.0.2.1/32",
      "10.1.2.3/24",
      "::1/128",
      "2001:db8::1/64",
    ]],
    ["a link", { ifindex }, ["10.1.2.3/24", "2001:db8::1/64"]],
    ["a family", { family: 6 }, ["::1/128", "2001:db8::1/64"]],
    ["a family of a link", { ifindex, family: 4 }, ["10.1.2.3/24"]],
  ];
  await eachRow(t, rows, ([, filter, expected]) => {
    const listed = address.list(filter);
    assertEquals(listed.map(({ address }) => String(address)), expected);
  });
});

rootTest("AddressRequests.list() shows failed duplicate detection", () => {
  using fixture = new Fixture();
  const { address, ifindex, hosts } = fixture;
  // Detection starts after a random delay and takes another second.
  runIn(hosts.host, "ip", "address", "add", "2001:db8::1/64", "dev", "veth0");
  address.add({ ifindex, address: Cidr.parse("2001:db8::2/64") });
  const states = address.list({ ifindex }).map((
    { address, isTentative, hasDadFailed },
  ) => [String(address), isTentative, hasDadFailed]);
  assertEquals(states.sort(), [
    ["2001:db8::1/64", true, false],
    ["2001:db8::2/64", false, false],
  ]);
});

rootTest("AddressRequests.add() detects duplicates if it is asked to", () => {
  using fixture = new Fixture();
  const { ifindex } = fixture;
  const address = Cidr.parse("2001:db8::1/64");
  fixture.address.add({ ifindex, address, detectsDuplicates: true });
  const [shown] = fixture.show();
  assertEquals([shown.local, shown.nodad], ["2001:db8::1", undefined]);
  const [{ isTentative } = { isTentative: false }] = fixture.address
    .list({ ifindex }).filter((one) => one.address.equals(address));
  assertEquals(isTentative, shown.tentative === true);
});
