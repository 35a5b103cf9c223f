import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../base/error.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { allocate, allocateRequested, candidates } from "./allocator.ts";
import {
  countAddresses,
  formatRangeSet,
  parseBlock,
  type Range,
  type RangeSet,
  resolveRange,
  resolveRangeSet,
} from "./range.ts";
import { eachRow } from "../../tests/_harness/table.ts";

function setOf(...subnets: string[]): RangeSet {
  return resolveRangeSet(
    subnets.map((subnet) => ({ subnet: Cidr.parse(subnet) })),
    0,
  );
}

function parse(ip: string): Ip | undefined {
  return ip === "" ? undefined : Ip.parse(ip);
}

/** Lists candidates as text. */
function listCandidates(set: RangeSet, lastReserved = ""): string[] {
  return [...candidates(set, parse(lastReserved))].map(({ ip }) => `${ip}`);
}

/** A range set with leases in memory. */
class Pool {
  readonly #set: RangeSet;
  readonly taken = new Set<string>();
  #last: Ip | undefined;

  constructor(set: RangeSet) {
    this.#set = set;
  }

  #reserve(ip: Ip): boolean {
    if (this.taken.has(`${ip}`)) return false;
    this.taken.add(`${ip}`);
    this.#last = ip;
    return true;
  }

  allocate(): string {
    return `${allocate(this.#set, this.#last, (ip) => this.#reserve(ip)).ip}`;
  }
}

Deno.test("candidates() starts after the last reserved address and wraps around", async (t) => {
  const [a, b] = ["10.0.0.0/30", "10.0.1.0/30"];
  const rows: [id: string, subnets: string[], last: string, want: string[]][] =
    [
      ["the next range", [a, b], "10.0.0.2", ["10.0.1.2", "10.0.0.2"]],
      ["last is the gateway", ["10.0.0.0/30"], "10.0.0.1", ["2"]],
      ["last is of no range", [a, b], "10.9.9.9", ["10.0.0.2", "10.0.1.2"]],
      ["last is of the other family", ["::/126"], "0.0.0.2", ["::2", "::3"]],
      ["RFC 3021", ["10.0.0.4/31"], "", ["5"]],
      ["one address", ["10.0.0.7/32"], "10.0.0.7", ["7"]],
      [
        "the last address there is",
        ["255.255.255.255/32"],
        "255.255.255.255",
        ["255.255.255.255"],
      ],
    ];
  await eachRow(t, rows, ([, subnets, last, want]) => {
    const addresses = want.map((ip) => /^\d$/.test(ip) ? `10.0.0.${ip}` : ip);
    assertEquals(listCandidates(setOf(...subnets), last), addresses);
  }, ([id, subnets, last]) => `${id}: ${subnets} after ${last || "nothing"}`);
});

Deno.test("candidates() includes rangeStart and rangeEnd, but not the gateway", () => {
  const range = resolveRange({
    subnet: Cidr.parse("10.0.0.0/29"),
    rangeStart: Ip.parse("10.0.0.0"),
    rangeEnd: Ip.parse("10.0.0.7"),
    gateway: Ip.parse("10.0.0.5"),
  });
  const want = [0, 1, 2, 3, 4, 6, 7].map((octet) => `10.0.0.${octet}`);
  assertEquals(listCandidates([range]), want);
});

Deno.test("allocate() returns the range that contains the address", () => {
  const set = setOf("10.0.0.0/30", "10.0.1.0/30");
  const { range } = allocate(set, Ip.parse("10.0.0.2"), () => true);
  assertEquals(range, set[1]);
});

Deno.test("allocateRequested() refuses addresses outside the set", async (t) => {
  const set: RangeSet = [
    ...setOf("192.168.0.0/24"),
    resolveRange({
      subnet: Cidr.parse("172.16.1.0/24"),
      rangeStart: Ip.parse("172.16.1.10"),
      rangeEnd: Ip.parse("172.16.1.20"),
    }),
  ];
  const ranges = "192.168.0.1-192.168.0.254,172.16.1.10-172.16.1.20";
  const rows: [id: string, ip: string][] = [
    ["above", "172.16.1.21"],
    ["below", "172.16.1.9"],
    ["elsewhere", "192.168.99.99"],
    ["other family", "2001:db8::1"],
  ];
  await eachRow(t, rows, ([, ip]) => {
    const request = (): unknown =>
      allocateRequested(set, Ip.parse(ip), () => true);
    const error = assertThrows(request, CniError);
    assertEquals(error.message, `${ip} not in range set ${ranges}`);
    assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
  });
});

Deno.test("candidates() skips excluded addresses", async (t) => {
  const rows: [subnet: string, exclude: string, last: string, want: string][] =
    [
      ["10.0.0.0/29", "10.0.0.3", "", "10.0.0.2 10.0.0.4 10.0.0.5 10.0.0.6"],
      ["10.0.0.0/29", "10.0.0.4/30", "", "10.0.0.2 10.0.0.3"],
      ["10.0.0.0/29", "10.0.0.4/30", "10.0.0.5", "10.0.0.2 10.0.0.3"],
      ["10.0.0.0/29", "10.0.0.0/30", "", "10.0.0.4 10.0.0.5 10.0.0.6"],
      [
        "10.0.0.0/29",
        "10.0.0.1 10.0.0.0/30 10.0.0.2/31 10.0.0.5",
        "",
        "10.0.0.4 10.0.0.6",
      ],
      ["10.0.0.0/29", "10.0.0.0/29", "", ""],
      ["255.255.255.252/30", "255.255.255.254/31", "", ""],
      ["2001:db8::/126", "2001:db8::2", "", "2001:db8::3"],
    ];
  for (const [subnet, exclude, last, want] of rows) {
    await t.step(
      `${subnet} without ${exclude} after ${last || "nothing"}`,
      () => {
        const excluded = exclude.split(" ").map(parseBlock);
        const range = resolveRange({
          subnet: Cidr.parse(subnet),
          exclude: excluded,
        });
        assertEquals(listCandidates([range], last).join(" "), want);
      },
    );
  }
});

Deno.test("candidates() skips an excluded half of a /64 in one step", () => {
  const exclude = [Cidr.parse("2001:db8::/65")];
  const range = resolveRange({ subnet: Cidr.parse("2001:db8::/64"), exclude });
  const { value } = candidates([range], undefined).next();
  assertEquals(`${value?.ip}`, "2001:db8:0:0:8000::");
});

/** Draws numbers from 0 to `limit`, exclusive. */
type Draw = (limit: number) => number;

/** Source: Marsaglia, "Xorshift RNGs", 2003. */
function seededDraw(seed: number): Draw {
  let state = seed;
  return (limit): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
}

/**
 * Draws a range of at most 16 addresses; ranges with different positions are
 * disjoint.
 */
function drawRange(draw: Draw, family: IpFamily, position: number): Range {
  const base = Ip.parse(family === 4 ? "10.0.0.0" : "2001:db8::");
  const hostBits = draw(5);
  const size = 1 << hostBits;
  const first = base.add(BigInt(256 * position + size * draw(4)));
  const subnet = Cidr.of(first, base.bitLength - hostBits);
  const [low = 0, high = 0] = [draw(size), draw(size)].sort((a, b) => a - b);
  const at = (offset: number): Ip => first.add(BigInt(offset));
  const exclude = Array.from(
    { length: draw(3) },
    () =>
      Cidr.of(at(draw(size)), subnet.prefixLength + draw(hostBits + 1))
        .masked(),
  );
  return resolveRange({
    subnet,
    exclude,
    // Half of the configured gateways are in the subnet, some even in the
    // range.
    gateway: draw(2) === 0 ? undefined : at(draw(2 * size)),
    ...draw(2) === 0 ? {} : { rangeStart: at(low), rangeEnd: at(high) },
  });
}

function drawSet(draw: Draw): RangeSet {
  const family = draw(2) === 0 ? 4 : 6;
  const length = 1 + draw(3);
  const ranges = Array.from(
    { length },
    (_, position) => drawRange(draw, family, position),
  );
  // In either order: a set need not be sorted.
  return draw(2) === 0 ? ranges : ranges.toReversed();
}

/** Lists each number of a range: an oracle without iterators. */
function enumerate({ start, end }: Range): bigint[] {
  const count = Number(end.value - start.value) + 1;
  return Array.from({ length: count }, (_, i) => start.value + BigInt(i));
}

/** Reports whether a range withholds the number: another oracle. */
function isWithheld(set: RangeSet, value: bigint): boolean {
  return set.some(({ start, end, gateway, excluded }) =>
    start.value <= value && value <= end.value &&
    (gateway?.value === value && gateway.family === start.family ||
      excluded.some(({ network, last }) =>
        network.value <= value && value <= last.value
      ))
  );
}

const SETS = 400;

/** Registers a test of many sets; the name of its only step has the seed. */
function property(
  name: string,
  check: (set: RangeSet, draw: Draw) => void,
): void {
  Deno.test(name, async (t) => {
    const seed = Math.floor(Math.random() * 0x7fff_ffff) + 1;
    await t.step(`seed ${seed}`, () => {
      const draw = seededDraw(seed);
      for (let round = 0; round < SETS; round++) check(drawSet(draw), draw);
    });
  });
}

property(
  "candidates() lists each address of a set once, wherever it starts",
  (set, draw) => {
    const all = set.flatMap(enumerate);
    const position = draw(all.length + 1) - 1;
    const last = all[position];
    const order = [...all.slice(position + 1), ...all.slice(0, position + 1)];
    const start = last === undefined
      ? undefined
      : Ip.fromValue(set[0]?.start.family ?? 4, last);
    assertEquals(
      [...candidates(set, start)].map(({ ip }) => ip.value),
      order.filter((value) => !isWithheld(set, value)),
      formatRangeSet(set),
    );
  },
);

property(
  "allocate() returns each address of a set exactly once",
  (set) => {
    const free = set.flatMap(enumerate).filter((ip) => !isWithheld(set, ip));
    assertEquals(countAddresses(set), BigInt(free.length), formatRangeSet(set));
    const pool = new Pool(set);
    for (let i = 0; i < free.length; i++) pool.allocate();
    // As many calls as addresses, so each address was handed out exactly once.
    const handedOut = [...pool.taken].map((ip) => Ip.parse(ip).value);
    assertEquals(new Set(handedOut), new Set(free), formatRangeSet(set));
    assertThrows(() => pool.allocate(), CniError, "no IP addresses available");
  },
);

property(
  "allocate() omits the network, broadcast and gateway addresses by default",
  (_, draw) => {
    const prefixLength = 24 + draw(7);
    const base = Ip.parse("10.0.0.0").add(BigInt(draw(1 << 16)) << 8n);
    const subnet = Cidr.of(base, prefixLength);
    const pool = new Pool([resolveRange({ subnet })]);
    const spared = [subnet.network, subnet.network.next(), subnet.last];
    for (let i = 0; i < (1 << 32 - prefixLength) - 3; i++) pool.allocate();
    assertEquals(spared.filter((ip) => pool.taken.has(`${ip}`)), []);
    assertThrows(() => pool.allocate(), CniError);
  },
);
