import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../base/error.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import {
  checkDisjoint,
  countAddresses,
  formatRangeSet,
  parseBlock,
  type Range,
  rangeContains,
  type RangeSet,
  resolveRange,
  resolveRangeSet,
} from "./range.ts";
import { createRandom } from "../../tests/_harness/repetition.ts";
import { testRows } from "../../tests/_harness/table.ts";

/** `subnet [start]-[end] [gateway]`, the form of ranges in the rows below. */
type RangeText = string;

function resolve(text: RangeText): Range {
  return resolveRange(parseRange(text));
}

function parseRange(text: RangeText): Parameters<typeof resolveRange>[0] {
  const [subnet = "", bounds = "-", gateway] = text.split(" ");
  const [start, end] = bounds.split("-");
  return {
    subnet: Cidr.parse(subnet),
    rangeStart: start ? Ip.parse(start) : undefined,
    rangeEnd: end ? Ip.parse(end) : undefined,
    gateway: gateway ? Ip.parse(gateway) : undefined,
  };
}

function resolveSet(...ranges: RangeText[]): RangeSet {
  return resolveRangeSet(ranges.map(parseRange), 0);
}

/** Asserts that `run` refuses a configuration with exactly this message. */
function assertRefused(run: () => unknown, message: string): void {
  const error = assertThrows(run, CniError);
  assertEquals(error.message, message);
  assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
}

testRows("resolveRange() has defaults for start, end and gateway", [
  ["/30", "192.0.2.4/30", "192.0.2.5-192.0.2.6 192.0.2.5"],
  [
    "a gateway of another subnet",
    "192.0.2.0/24 - 10.0.0.1",
    "192.0.2.1-192.0.2.254 10.0.0.1",
  ],
  [
    "bounds at the subnet's ends",
    "192.0.2.0/24 192.0.2.0-192.0.2.255",
    "192.0.2.0-192.0.2.255 192.0.2.1",
  ],
  ["the widest", "0.0.0.0/0", "0.0.0.1-255.255.255.254 0.0.0.1"],
], ([, range, want]: [string, RangeText, string]) => {
  const { start, end, gateway } = resolve(range);
  assertEquals(`${start}-${end} ${gateway}`, want);
}, ([id, range]) => `${id}: ${range}`);

testRows("resolveRange() refuses an exclusion outside the subnet", [
  ["10.1.2.0/24", "10.1.2.0/24 10.1.2.9 10.1.2.64/26", ""],
  ["2001:db8::/64", "2001:db8::9 2001:db8::/65", ""],
  [
    "10.1.2.0/24",
    "10.1.2.9 10.1.3.9",
    "Exclude 10.1.3.9 not in network 10.1.2.0/24",
  ],
  [
    "10.1.2.0/24",
    "10.1.2.0/23",
    "Exclude 10.1.2.0/23 not in network 10.1.2.0/24",
  ],
  ["10.1.2.0/24", "::9", "Exclude ::9 not in network 10.1.2.0/24"],
  [
    "10.1.2.0/24",
    "10.1.2.9/28",
    "Exclude 10.1.2.9/28 has host bits set. For a subnet mask of length 28 " +
    "the network address is 10.1.2.0",
  ],
], ([subnet, exclude, message]: [string, string, string]) => {
  const blocks = exclude.split(" ").map(parseBlock);
  const run = (): Range =>
    resolveRange({ subnet: Cidr.parse(subnet), exclude: blocks });
  if (message !== "") return assertRefused(run, message);
  assertEquals(run().excluded, blocks);
}, ([subnet, exclude]) => `${exclude} of ${subnet}`);

testRows("countAddresses() counts the addresses that can be leased", [
  [["10.1.2.0/24"], [], 253n],
  [["10.1.2.0/24 - 192.0.2.1"], [], 254n],
  [["10.1.2.0/24 10.1.2.10-10.1.2.19"], [], 10n],
  [["10.1.2.0/30", "10.1.3.0/29"], [], 6n],
  [["10.1.2.7/32"], [], 1n],
  [["10.1.2.0/31"], [], 1n],
  [["2001:db8::/64"], [], (1n << 64n) - 2n],
  [["10.1.2.0/24"], ["10.1.2.0/25"], 127n],
  [["10.1.2.0/24"], ["10.1.2.4/30", "10.1.2.5", "10.1.2.4/30"], 249n],
  [["10.1.2.0/24 10.1.2.10-10.1.2.19"], ["10.1.2.8/30", "10.1.2.20"], 8n],
  [["10.1.2.0/24"], ["10.1.2.0/24"], 0n],
], ([ranges, exclude, want]: [RangeText[], string[], bigint]) => {
  const configs = ranges.map(parseRange)
    .map((config) => ({ ...config, exclude: exclude.map(parseBlock) }));
  assertEquals(countAddresses(configs.map(resolveRange)), want);
}, ([ranges, exclude]) => `${ranges} without ${exclude}`);

testRows("resolveRange() refuses a start or end outside the subnet", [
  [
    "start after the end that is not configured",
    "192.0.2.0/24 192.0.2.255-",
    "RangeStart 192.0.2.255 is after RangeEnd 192.0.2.254 in network 192.0.2.0/24",
  ],
  [
    "end before the start that is not configured",
    "192.0.2.0/24 -192.0.2.0",
    "RangeEnd 192.0.2.0 not in network 192.0.2.0/24",
  ],
  [
    "start of the other family",
    "192.0.2.0/24 2001:db8::1-",
    "RangeStart 2001:db8::1 not in network 192.0.2.0/24",
  ],
  [
    "end of the other family",
    "2001:db8::/64 -192.0.2.1",
    "RangeEnd 192.0.2.1 not in network 2001:db8::/64",
  ],
], ([, range, message]: [string, RangeText, string]) => {
  assertRefused(() => resolve(range), message);
}, ([id, range]) => `${id}: ${range}`);

testRows(
  "resolveRange() accepts a gateway of the same family outside the subnet",
  [
    ["192.0.2.0/24", "198.51.100.1", undefined],
    ["2001:db8::/64", "fe80::1", undefined],
    [
      "192.0.2.0/24",
      "2001:db8::1",
      "gateway 2001:db8::1 of 192.0.2.0/24 is not an IPv4 address",
    ],
    [
      "2001:db8::/64",
      "192.0.2.1",
      "gateway 192.0.2.1 of 2001:db8::/64 is not an IPv6 address",
    ],
  ],
  ([subnet, ip, message]: [string, string, string | undefined]) => {
    const gateway = Ip.parse(ip);
    const config = { subnet: Cidr.parse(subnet), gateway };
    if (message !== undefined) {
      assertRefused(() => resolveRange(config), message);
    } else assertEquals(resolveRange(config).gateway, gateway);
  },
  ([subnet, gateway]) => `${gateway} for ${subnet}`,
);

testRows("rangeContains() compares addresses of one family", [
  ["::/64 ::1-::ffff", "0.0.0.5"],
  ["0.0.0.0/24", "::5"],
], ([range, ip]: [RangeText, string]) => {
  assertEquals(rangeContains(resolve(range), Ip.parse(ip)), false);
});

/** Resolves so many ranges, and counts how often their starts are read. */
function countReads(
  count: number,
): { ranges: Range[]; reads: { count: number } } {
  const reads = { count: 0 };
  const ranges = Array.from({ length: count }, (_, number) => {
    const [high, low] = [number >> 8, number & 255];
    const { start, ...range } = resolve(`10.${high}.${low}.0/24`);
    return {
      ...range,
      get start(): Ip {
        reads.count++;
        return start;
      },
    };
  });
  return { ranges, reads };
}

Deno.test("checkDisjoint() does not compare every pair of ranges", () => {
  const { ranges, reads } = countReads(4000);
  const sets = ranges.map((range) => [range]);
  checkDisjoint(sets);
  // The last range overlaps the first.
  const last = [resolve("10.0.0.128/25")];
  assertRefused(
    () => checkDisjoint([...sets, last]),
    "range set 0 overlaps with 4000",
  );
  // All in one set, whose ranges are the first to overlap.
  const others = countReads(4000);
  assertRefused(
    () => checkDisjoint([ranges, ...others.ranges.map((range) => [range])]),
    "range set 0 overlaps with 1",
  );
  const count = reads.count + others.reads.count;
  assert(count < 4000 * 200, `${count} reads`);
});

Deno.test("checkDisjoint() finds the same overlaps as comparing every pair", () => {
  const random = createRandom(1);
  const text = (): RangeText => {
    const length = 24 + random.below(5);
    const size = 2 ** (32 - length);
    return `10.1.${random.below(4)}.${
      random.below(256 / size) * size
    }/${length}`;
  };
  const outcomes = new Set<string>();
  for (let round = 0; round < 500; round++) {
    const sets = Array.from(
      { length: 1 + random.below(4) },
      () => findDisjoint(Array.from({ length: 1 + random.below(3) }, text)),
    );
    const expected = compareAll(sets);
    outcomes.add(expected ?? "");
    if (expected === undefined) checkDisjoint(sets);
    else assertRefused(() => checkDisjoint(sets), expected);
  }
  // Of each kind.
  assert(outcomes.size > 6, [...outcomes].join());
});

/** Resolves the ranges that can be in the same set. */
function findDisjoint(texts: readonly RangeText[]): Range[] {
  const set: Range[] = [];
  for (const text of texts) {
    const range = resolve(text);
    if (set.every((other) => !other.subnet.overlaps(range.subnet))) {
      set.push(range);
    }
  }
  return set;
}

function compareAll(sets: readonly Range[][]): string | undefined {
  for (const [i, left] of sets.entries()) {
    for (const [j, right] of sets.entries()) {
      const isClash = j > i &&
        left.some((one) =>
          right.some((other) => one.subnet.overlaps(other.subnet))
        );
      if (isClash) return `range set ${i} overlaps with ${j}`;
    }
  }
  return undefined;
}

Deno.test("formatRangeSet() lists the first and last address of each range", () => {
  assertEquals(
    formatRangeSet(resolveSet("192.168.0.0/24", "172.16.1.0/24")),
    "192.168.0.1-192.168.0.254,172.16.1.1-172.16.1.254",
  );
});

testRows("resolveRangeSet() refuses sets that contradict themselves", [
  ["empty", [], "empty range set"],
  [
    "the same twice",
    ["10.1.0.0/24", "10.2.0.0/24", "10.1.0.0/24"],
    "subnets 10.1.0.1-10.1.0.254 and 10.1.0.1-10.1.0.254 overlap",
  ],
  [
    "a range that is wrong itself",
    ["10.1.0.0/24", "10.2.0.0/24 10.3.0.0-"],
    "RangeStart 10.3.0.0 not in network 10.2.0.0/24",
  ],
], ([, ranges, message]: [string, RangeText[], string]) => {
  assertRefused(
    () => resolveRangeSet(ranges.map(parseRange), 3),
    `invalid range set 3: ${message}`,
  );
});
