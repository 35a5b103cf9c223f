import { assertEquals } from "@std/assert";
import {
  assertLayout,
  maybe,
  randomBelow,
  randomOf,
  testMessages,
} from "../../tests/_harness/codecs.ts";
import {
  delClass,
  delFilter,
  delQdisc,
  getClass,
  getFilter,
  getQdisc,
  newClass,
  newFilter,
  newQdisc,
} from "./traffic_control_message.ts";

type QdiscBody = Parameters<typeof newQdisc.encode>[0];
type Attributes = NonNullable<QdiscBody["attributes"]>;

const random16 = (): number => randomBelow(2 ** 16);
const random32 = (): number => randomBelow(2 ** 32);
const random64 = (): bigint => BigInt(randomBelow(2 ** 53));

function randomRate(): object {
  return {
    cellLog: randomBelow(2 ** 8),
    linkLayer: randomBelow(2 ** 8),
    overhead: random16(),
    cellAlign: random16(),
    mpu: random16(),
    rate: random32(),
  };
}

function randomTbf(): Attributes {
  const bucket = {
    rate: randomRate(),
    peakRate: randomRate(),
    limit: random32(),
    buffer: random32(),
    mtu: random32(),
  };
  return {
    kind: "tbf",
    options: {
      bucket,
      ...maybe("rate64", random64),
      ...maybe("burst", random32),
    },
  };
}

function randomHtb(): Attributes {
  const htbClass = {
    rate: randomRate(),
    ceil: randomRate(),
    buffer: random32(),
    ceilBuffer: random32(),
    quantum: random32(),
    level: random32(),
    priority: random32(),
  };
  const global = {
    version: random32(),
    rateToQuantum: random32(),
    defaultClass: random32(),
    debug: random32(),
    directPackets: random32(),
  };
  return {
    kind: "htb",
    options: {
      ...maybe("class", () => htbClass),
      ...maybe("global", () => global),
      ...maybe("ceil64", random64),
    },
  };
}

function randomU32(): Attributes {
  const keys = Array.from({ length: randomBelow(5) }, () => ({
    mask: random32(),
    value: random32(),
    offset: randomBelow(2 ** 31),
  }));
  const mirred = {
    index: random32(),
    capabilities: random32(),
    action: randomBelow(2 ** 31),
    references: randomBelow(2 ** 31),
    bindings: randomBelow(2 ** 31),
    mirredAction: randomBelow(2 ** 31),
    ifindex: random32(),
  };
  const first = { kind: "mirred", options: { mirred } };
  return {
    kind: "u32",
    options: {
      ...maybe("classId", random32),
      selector: { flags: randomBelow(2 ** 8), keys },
      ...maybe("actions", () => ({ first })),
    },
  };
}

function randomAttributes(): Attributes {
  const draw = randomOf<() => Attributes>(
    () => ({ kind: "clsact", options: {} }),
    () => ({ kind: "bfifo", options: { limit: random32() } }),
    randomTbf,
    randomHtb,
    randomU32,
  );
  return draw();
}

function randomQdisc(): QdiscBody {
  return {
    header: {
      family: randomBelow(2 ** 8),
      padding1: 0,
      padding2: 0,
      ifindex: randomBelow(2 ** 31),
      handle: random32(),
      parent: random32(),
      info: random32(),
    },
    attributes: randomAttributes(),
  };
}

// Offsets and sizes as gcc reports them.
Deno.test("the header of traffic control messages is laid out as struct tcmsg", () => {
  assertEquals(newQdisc.encode({ header: {} }).length, 20);
  assertLayout((header) => newQdisc.encode({ header }), {
    family: [0, 1],
    padding1: [1, 1],
    padding2: [2, 2],
    ifindex: [4, 4],
    handle: [8, 4],
    parent: [12, 4],
    info: [16, 4],
  });
  assertEquals(newFilter.encode({ header: {} }).length, 20);
  assertLayout((header) => newFilter.encode({ header }), {
    ifindex: [4, 4],
    handle: [8, 4],
    parent: [12, 4],
    protocol: [16, 2],
    priority: [18, 2],
  });
});

Deno.test("a filter's protocol and priority make up the info of struct tcmsg", () => {
  // TC_H_MAKE(1 << 16, htons(ETH_P_ALL))
  const header = { priority: 1, protocol: 3 };
  const { info } = newQdisc.decode(newFilter.encode({ header })).header;
  assertEquals(info, 0x1_0300);
});

testMessages("traffic control", {
  numbers: [
    [newQdisc, "RTM_NEWQDISC", 36],
    [delQdisc, "RTM_DELQDISC", 37],
    [getQdisc, "RTM_GETQDISC", 38],
    [newClass, "RTM_NEWTCLASS", 40],
    [delClass, "RTM_DELTCLASS", 41],
    [getClass, "RTM_GETTCLASS", 42],
    [newFilter, "RTM_NEWTFILTER", 44],
    [delFilter, "RTM_DELTFILTER", 45],
    [getFilter, "RTM_GETTFILTER", 46],
  ],
  codec: newQdisc,
  draw: randomQdisc,
});
