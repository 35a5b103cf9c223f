import { assertEquals, assertThrows } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { simulateNewerKernel } from "./testing.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { NetlinkError } from "../netlink/error.ts";
import { Rtnl } from "./mod.ts";
import { RuleRequests } from "./rule.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** A namespace with the kernel's default rules. */
class Fixture implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #hosts = this.#stack.use(TestHosts.create());
  readonly #rtnl = this.#stack.use(Rtnl.open(this.#hosts.host.path));
  readonly rule = new RuleRequests(this.#rtnl.socket);

  /** Runs a command line of iproute2. */
  ip(line: string): void {
    runIn(this.#hosts.host, "ip", ...line.split(" "));
  }

  /** Lists the rules as `ip` shows them, without the kernel's. */
  show(family: 4 | 6 = 4): string[] {
    return ipJson(this.#hosts.host, `-${family}`, "rule")
      .filter(({ src }: Record<string, unknown>) => src !== "all")
      .map((rule: Record<string, unknown>) => {
        const { priority, src, srclen = "host", table } = rule;
        return `${priority}: ${src}/${srclen} ${table}`;
      });
  }

  /** Lists the rules as `RuleRequests` does, without the kernel's. */
  list(): string[] {
    return this.rule.list()
      .filter(({ source }) => source.prefixLength > 0)
      .map(({ priority, source, table, isBySource }) =>
        `${priority}: ${source} ${table} ${isBySource}`
      );
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

function errnoOf(work: () => unknown): string {
  return assertThrows(work, NetlinkError).errno;
}

/** Rules, and how `ip` shows them. */
const ROWS: [string, number, number | undefined, string][] = [
  ["10.1.2.3/32", 100, undefined, "32765: 10.1.2.3/host 100"],
  ["10.1.2.0/24", 255, 9, "9: 10.1.2.0/24 local"],
  ["10.1.2.3/32", 256, 1, "1: 10.1.2.3/host 256"],
  ["2001:db8::3/128", 100, undefined, "32765: 2001:db8::3/host 100"],
  ["2001:db8::/48", 2 ** 32 - 1, 7, "7: 2001:db8::/48 4294967295"],
];

rootTest("RuleRequests.add() and del() agree with ip", async (t) => {
  await eachRow(t, ROWS, ([text, table, priority, shown]) => {
    using fixture = new Fixture();
    const source = Cidr.parse(text);
    fixture.rule.add({ source, table, priority });
    assertEquals(fixture.show(source.family), [shown]);
    fixture.rule.del({ source, table, priority });
    assertEquals(fixture.show(source.family), []);
    const again = (): void => fixture.rule.del({ source, table, priority });
    assertEquals(errnoOf(again), "ENOENT");
  }, ([, , , shown]) => shown);
});

rootTest("RuleRequests.add() puts a rule before those that are there", () => {
  using fixture = new Fixture();
  const source = Cidr.parse("10.1.2.3/32");
  fixture.rule.add({ source, table: 100 });
  fixture.rule.add({ source, table: 101 });
  fixture.rule.add({ source, table: 101 });
  assertEquals(fixture.show(), [
    "32763: 10.1.2.3/host 101",
    "32764: 10.1.2.3/host 101",
    "32765: 10.1.2.3/host 100",
  ]);
  const same = { source, table: 101, priority: 32763 };
  assertEquals(errnoOf(() => fixture.rule.add(same)), "EEXIST");
  fixture.rule.del({ source, table: 101, priority: 32764 });
  assertEquals(fixture.show(), [
    "32763: 10.1.2.3/host 101",
    "32765: 10.1.2.3/host 100",
  ]);
});

rootTest("RuleRequests.del() leaves rules that differ in what is given", () => {
  using fixture = new Fixture();
  const source = Cidr.parse("10.1.2.3/32");
  fixture.rule.add({ source, table: 100, priority: 50 });
  for (
    const other of [
      { source, table: 101 },
      { source, table: 100, priority: 51 },
      { source: Cidr.parse("10.1.2.4/32"), table: 100 },
      { source: Cidr.parse("10.1.2.2/31"), table: 100 },
    ]
  ) assertEquals(errnoOf(() => fixture.rule.del(other)), "ENOENT");
  assertEquals(fixture.show(), ["50: 10.1.2.3/host 100"]);
});

rootTest("RuleRequests.list() has both families, with defaults", () => {
  using fixture = new Fixture();
  const kernels = fixture.rule.list()
    .map(({ priority, source, table }) => `${priority} ${source} ${table}`);
  assertEquals(kernels, [
    "0 0.0.0.0/0 255",
    "32766 0.0.0.0/0 254",
    "32767 0.0.0.0/0 253",
    "0 ::/0 255",
    "32766 ::/0 254",
  ]);
  for (const [text, table, priority] of ROWS) {
    fixture.rule.add({ source: Cidr.parse(text), table, priority });
  }
  assertEquals(fixture.list(), [
    "1: 10.1.2.3/32 256 true",
    "9: 10.1.2.0/24 255 true",
    "32765: 10.1.2.3/32 100 true",
    "7: 2001:db8::/48 4294967295 true",
    "32765: 2001:db8::3/128 100 true",
  ]);
});

rootTest("RuleRequests.list() says what stops all packets", async (t) => {
  const rows = [
    ["prohibit", true],
    ["blackhole", true],
    ["to 10.9.0.0/16 prohibit", false],
    ["fwmark 0x80000/0xff0000 prohibit", false],
    ["iif eth0 prohibit", false],
    ["ipproto tcp dport 25 prohibit", false],
  ] as const;
  await eachRow(t, rows, ([condition, expected]) => {
    using fixture = new Fixture();
    fixture.ip(`rule add from 10.1.2.3 pref 9 ${condition}`);
    const [rule] = fixture.rule.list().filter(({ priority }) => priority === 9);
    assertEquals(rule?.stops, expected);
  });
});

rootTest("RuleRequests.list() shows further selectors", async (t) => {
  const conditions = [
    "to 10.9.0.0/16",
    "iif eth0",
    "oif eth0",
    "fwmark 7",
    "tos 0x10",
    "ipproto udp",
    "dport 53",
    "uidrange 5-6",
    "suppress_prefixlength 0",
  ];
  await eachRow(t, conditions, (condition) => {
    using fixture = new Fixture();
    fixture.ip(`rule add from 10.1.2.3 ${condition} lookup 100 pref 9`);
    assertEquals(fixture.list(), ["9: 10.1.2.3/32 100 false"]);
  });
  await t.step("not", () => {
    using fixture = new Fixture();
    fixture.ip("rule add not from 10.1.2.3 lookup 100 pref 9");
    assertEquals(fixture.list(), ["9: 10.1.2.3/32 100 false"]);
  });
  await t.step("blackhole", () => {
    using fixture = new Fixture();
    fixture.ip("rule add blackhole from 10.1.2.3 pref 9");
    assertEquals(fixture.list(), ["9: 10.1.2.3/32 0 false"]);
  });
  await t.step("an unknown attribute is not taken for a condition", () => {
    using fixture = new Fixture();
    fixture.ip("rule add from 10.1.2.3 lookup 100 pref 9");
    using _newer = simulateNewerKernel();
    assertEquals(fixture.list(), ["9: 10.1.2.3/32 100 true"]);
  });
  await t.step("none", () => {
    using fixture = new Fixture();
    fixture.ip("rule add from 10.1.2.3 lookup 100 pref 9 protocol static");
    assertEquals(fixture.list(), ["9: 10.1.2.3/32 100 true"]);
  });
});
