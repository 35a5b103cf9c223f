/**
 * What iproute2 and the kernel said to each other, byte for byte, against our
 * codecs and our requests. `tests/_harness/golden_netlink.ts` captures them.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import type { Bytes, Fields } from "../net/bytes.ts";
import { type Rows, splitAttributes } from "../ffi/netlink/attribute.ts";
import {
  type Body,
  Flag,
  type MessageType,
  type RawMessage,
} from "../ffi/netlink/message.ts";
import type { Request } from "../ffi/netlink/request.ts";
import type { NetlinkSocket } from "../ffi/netlink/socket.ts";
import type { NetNs } from "../ffi/netns.ts";
import { AddressRequests } from "../ffi/rtnl/address.ts";
import { BridgeVlanRequests } from "../ffi/rtnl/bridge_vlan.ts";
import { LinkRequests } from "../ffi/rtnl/link.ts";
import { NeighborRequests } from "../ffi/rtnl/neighbor.ts";
import { RouteRequests } from "../ffi/rtnl/route.ts";
import { RuleRequests } from "../ffi/rtnl/rule.ts";
import {
  handleOf,
  Parent,
  TrafficControl,
} from "../ffi/rtnl/traffic_control.ts";
import {
  MATCH_ALL,
  matchNetwork,
  Protocol,
} from "../ffi/rtnl/traffic_control_filter.ts";
import { Cidr } from "../net/cidr.ts";
import { Ip } from "../net/ip.ts";
import { Mac } from "../net/mac.ts";
import {
  type GoldenMessage,
  listGolden,
  readGolden,
  recordGolden,
} from "./_harness/golden_netlink.ts";
import {
  findMessageType,
  firstMessage,
  type Rendering,
  renderMessage,
} from "./_harness/netlink_rendering.ts";
import { eachRow, testRows } from "./_harness/table.ts";

recordGolden();

const NAMES = listGolden();

function decode({ bytes }: GoldenMessage): RawMessage {
  return firstMessage(Uint8Array.fromHex(bytes));
}

Deno.test("the decoder decodes the captured messages", async (t) => {
  assert(NAMES.length > 0);
  await eachRow(t, NAMES, (name) => {
    const { messages } = readGolden(name);
    const [request] = messages.map(decode);
    for (const message of messages) {
      const rendered = renderMessage(decode(message), request);
      assertEquals(
        rendered,
        message.decoded,
        "is it meant? Run this test with CNI_RECORD_NETLINK=decoded",
      );
    }
  });
});

/**
 * Splits the body of a message into attributes as hex. The flags in the upper
 * bits of types are left out: the kernel sets them where we have no need to.
 */
function attributesOf(body: Bytes, headerSize: number): string[] {
  return [...splitAttributes(body.subarray(headerSize))]
    .map(({ type, bytes }) => `${type}:${bytes.toHex()}`);
}

/** How near the bytes are that we encode to those that we decoded. */
const RESEMBLANCES = ["identical", "reordered", "equivalent"] as const;
type Resemblance = typeof RESEMBLANCES[number];

/** Decodes a message and encodes it again, but for what the decoder does not know. */
function reencode({ type, body }: RawMessage): Resemblance {
  const codec = findMessageType(type);
  if (codec === undefined) return "identical";
  const { header, attributes: { unknown = [], ...known } } = codec.decode(body);
  const attributes = withoutUnknown(known);
  const encoded = codec.encode({ header, attributes } as Body<Fields, Rows>);
  assertEquals(codec.decode(encoded), { header, attributes });
  const { length } = codec.encode({ header });
  assertEquals(encoded.subarray(0, length), body.subarray(0, length));
  const dropped = unknown.map(({ type, bytes }) => `${type}:${bytes.toHex()}`);
  const before = attributesOf(body, length)
    .filter((attribute) => !dropped.includes(attribute));
  const after = attributesOf(encoded, length);
  if (`${before}` === `${after}`) return "identical";
  const isReordered = `${before.sort()}` === `${after.sort()}`;
  return isReordered ? "reordered" : "equivalent";
}

/** Leaves out, at every depth, the attributes that no row describes. */
function withoutUnknown<T>(value: T): T {
  const isPlain = value?.constructor === Object;
  if (!isPlain) return value;
  const known = Object.entries(value as object)
    .filter(([key]) => key !== "unknown")
    .map(([key, part]) => [key, withoutUnknown(part)]);
  return Object.fromEntries(known);
}

/** Where our bytes are not those that were captured. */
const NOT_IDENTICAL: Partial<Record<Resemblance, string[]>> = {
  // We have the order of the numbers; iproute2 and the kernel often another.
  reordered: [
    "address_add_ipv4",
    "address_add_ipv4_noprefixroute",
    "address_add_ipv6",
    "address_add_taken",
    "address_delete",
    "address_replace",
    "address_show",
    "link_show",
    "link_show_absent",
    "route_add_ipv6",
    "route_add_link_scope",
    "route_add_metrics_table",
    "route_add_onlink",
    "route_prepend",
    "route_delete",
    "route_replace",
    "route_show_ipv6",
    "route_show_table",
    "rule_add_ipv6_priority_table",
    "rule_add_taken",
    "rule_delete",
    "rule_show",
    "rule_show_ipv6",
  ],
  equivalent: [
    // iproute2 ends the name of a kind without NUL.
    "link_add_bridge",
    "link_add_ifb",
    "link_add_veth",
    "link_add_veth_queues",
    "link_add_veth_taken",
    "link_set_vlan_filtering",
    // The decoder knows the data of ports by a name that iproute2 does not give.
    "link_set_bridge_port",
    // The decoder does not know most data of this kind.
    "link_show_bridge",
    // Nor tables of times, nor what the kernel tells of a filter's working.
    "class_add_htb",
    "qdisc_add_tbf",
    "qdisc_add_tbf_rate64",
    "filter_show",
    // This project also keeps the order of the numbers within options.
    "filter_add_redirect",
  ],
};

testRows("encoding reproduces the captured messages", NAMES, (name) => {
  const found = readGolden(name).messages.map(decode).map(reencode);
  const worst = RESEMBLANCES.findLast((one) => found.includes(one));
  const expected = RESEMBLANCES
    .find((one) => NOT_IDENTICAL[one]?.includes(name)) ?? "identical";
  assertEquals(worst, expected);
});

/** All that can be asked for through one socket. */
class Requests {
  readonly link: LinkRequests;
  readonly address: AddressRequests;
  readonly route: RouteRequests;
  readonly neighbor: NeighborRequests;
  readonly rule: RuleRequests;
  readonly bridgeVlan: BridgeVlanRequests;
  readonly traffic: TrafficControl;

  constructor(socket: NetlinkSocket) {
    this.link = new LinkRequests(socket);
    this.address = new AddressRequests(socket);
    this.route = new RouteRequests(socket);
    this.traffic = new TrafficControl(socket);
    this.neighbor = new NeighborRequests(socket);
    this.rule = new RuleRequests(socket);
    this.bridgeVlan = new BridgeVlanRequests(socket);
  }
}

/** Ends a request that was recorded rather than sent. */
class Recorded extends Error {
  readonly rendering: Rendering;

  constructor(rendering: Rendering) {
    super("Recorded");
    this.rendering = rendering;
  }
}

/** Returns the first request that `work` makes. */
function record(work: (requests: Requests) => unknown): Rendering {
  const stopWith = (ownFlags: number) =>
  (
    type: MessageType<Fields, Rows>,
    { flags = 0, ...body }: Request<Fields, Rows>,
  ): never => {
    throw new Recorded(renderMessage({
      type: type.type,
      flags: flags | ownFlags,
      sequence: 1,
      body: type.encode(body),
    }));
  };
  const socket = {
    request: stopWith(Flag.Request | Flag.Ack),
    get: stopWith(Flag.Request),
    dump: stopWith(Flag.Request | Flag.Dump),
  };
  try {
    work(new Requests(socket as unknown as NetlinkSocket));
  } catch (error) {
    if (error instanceof Recorded) return error.rendering;
    throw error;
  }
  throw new Error("Nothing was requested");
}

/** Lists all leaves of a value by their paths. */
function leavesOf(value: unknown, path = ""): [path: string, leaf: string][] {
  if (typeof value !== "object" || value === null) return [[path, `${value}`]];
  return Object.entries(value).flatMap(([key, part]) =>
    leavesOf(part, path === "" ? key : `${path}.${key}`)
  );
}

/** Lists what differs as `path: theirs → ours`; `-` is absent. */
function compare(theirs: Rendering, ours: Rendering): string[] {
  const [their, our] = [theirs, ours].map((one) => new Map(leavesOf(one)));
  const paths = new Set([...their?.keys() ?? [], ...our?.keys() ?? []]);
  return [...paths].sort().flatMap((path) => {
    const [a = "-", b = "-"] = [their?.get(path), our?.get(path)];
    return a === b ? [] : [`${path}: ${shorten(a)} → ${shorten(b)}`];
  });
}

/** Tables are told by how they begin. */
function shorten(leaf: string): string {
  return leaf.length > 64 ? `${leaf.slice(0, 8)}…` : leaf;
}

/** Stands for the sandbox by the descriptor that iproute2 had of it. */
const SANDBOX = { fd: 4 } as NetNs;
const PEER = "attributes.linkInfo.data.peer.attributes";
/** NLM_F_ECHO: the answer is the new link. */
const ECHO = "flags: 0x605 → 0x60d";

/** A root qdisc, a filter of one, and a redirection, as the commands have them. */
const ROOT = { ifindex: 2, parent: Parent.Root, handle: handleOf(1) };
const FILTER = { ifindex: 2, parent: handleOf(1), classId: handleOf(1, 1) };
const REDIRECT = {
  ifindex: 2,
  parent: Parent.ClsactIngress,
  priority: 1,
  protocol: Protocol.All,
  kind: "u32",
  handle: 0x8000_0800,
  keys: MATCH_ALL,
  classId: handleOf(1, 1),
  redirectTo: 7,
};

/** What tc says of a rate: the kernel needs it for tables of times only. */
function tableDetails(rate: string): string[] {
  return [
    `attributes.options.${rate}.cellAlign: 65535 → 0`,
    `attributes.options.${rate}.cellLog: 3 → 0`,
  ];
}

/** A table of times; the kernel works rates out by itself. */
function table(position: number, type: number, bytes: string): string[] {
  const path = `attributes.options.unknown.${position}`;
  return [`${path}.bytes: ${bytes}… → -`, `${path}.type: ${type} → -`];
}

/** What we ask for in the place of a command, and how our request differs. */
const EQUIVALENTS: Record<string, {
  request: (requests: Requests) => unknown;
  differences: string[];
}> = {
  link_add_veth: {
    request: ({ link }) =>
      link.addVeth({
        name: "veth0",
        mtu: 1400,
        peer: {
          netns: SANDBOX,
          name: "eth0",
          mac: Mac.parse("0a:58:0a:01:02:03"),
        },
      }),
    differences: [
      // One queue is created immediately; more are made, and then taken away
      // again.
      `${PEER}.receiveQueues: - → 1`,
      `${PEER}.transmitQueues: - → 1`,
      "attributes.receiveQueues: - → 1",
      "attributes.transmitQueues: - → 1",
      ECHO,
    ],
  },
  link_add_veth_queues: {
    request: ({ link }) =>
      link.addVeth({ name: "veth0", peer: { netns: SANDBOX, name: "eth0" } }),
    differences: [ECHO],
  },
  link_add_bridge: {
    request: ({ link }) =>
      link.addBridge({
        name: "br0",
        mtu: 1400,
        mac: Mac.parse("0a:58:0a:01:02:01"),
      }),
    differences: [],
  },
  link_set_master: {
    request: ({ link }) => link.set(2, { masterIndex: 3 }),
    differences: [],
  },
  link_set_bridge_port: {
    request: ({ link }) =>
      link.set(2, { port: { hairpin: true, isolated: true } }),
    differences: [
      // The kernel looks at neither name: the port's bridge says what it is.
      "attributes.linkInfo.kind: bridge_slave → -",
      "attributes.linkInfo.portData.hairpin: - → true",
      "attributes.linkInfo.portData.isolated: - → true",
      "attributes.linkInfo.portKind: - → bridge",
    ],
  },
  bridge_vlan_add: {
    request: ({ bridgeVlan }) =>
      bridgeVlan.add(2, {
        first: 100,
        last: 100,
        isPvid: true,
        isUntagged: true,
      }),
    differences: [],
  },
  bridge_vlan_add_range: {
    request: ({ bridgeVlan }) => bridgeVlan.add(2, { first: 200, last: 210 }),
    differences: [],
  },
  bridge_vlan_delete: {
    request: ({ bridgeVlan }) => bridgeVlan.del(2, { first: 1, last: 1 }),
    differences: [],
  },
  link_set_vlan_filtering: {
    request: ({ link }) => link.set(2, { bridge: { vlanFiltering: true } }),
    differences: [],
  },
  link_set_address: {
    request: ({ link }) => link.set(2, { mac: Mac.parse("0a:58:0a:01:02:04") }),
    differences: [],
  },
  link_set_up: {
    request: ({ link }) => link.set(2, { isUp: true }),
    differences: [],
  },
  link_set_down: {
    request: ({ link }) => link.set(2, { isUp: false }),
    differences: [],
  },
  link_delete: { request: ({ link }) => link.del(2), differences: [] },
  link_show: {
    request: ({ link }) => link.get("veth0"),
    differences: [
      // Nothing of virtual functions is asked for.
      "attributes.extendedMask: 9 → 8",
    ],
  },
  address_add_ipv4: {
    request: ({ address }) =>
      address.add({ ifindex: 2, address: Cidr.parse("10.1.2.1/24") }),
    differences: ["attributes.flags: - → 0"],
  },
  address_add_ipv4_noprefixroute: {
    request: ({ address }) =>
      address.add({
        ifindex: 2,
        address: Cidr.parse("10.1.2.1/32"),
        noPrefixRoute: true,
      }),
    differences: [],
  },
  address_add_ipv6: {
    request: ({ address }) =>
      address.add({ ifindex: 2, address: Cidr.parse("2001:db8::1/64") }),
    differences: [
      // IFA_F_NODAD: eight bits are in the header, all are in the attribute.
      "attributes.flags: - → 2",
      "header.flags: 2 → 0",
    ],
  },
  address_replace: {
    request: ({ address }) =>
      address.replace({ ifindex: 2, address: Cidr.parse("10.1.2.1/24") }),
    differences: ["attributes.flags: - → 0"],
  },
  address_delete: {
    request: ({ address }) => address.del(2, Cidr.parse("10.1.2.1/24")),
    differences: [],
  },
  address_show: {
    request: ({ address }) => address.list({ ifindex: 2 }),
    differences: [],
  },
  route_add_metrics_table: {
    request: ({ route }) =>
      route.add({
        destination: Cidr.parse("10.9.0.0/16"),
        gateway: Ip.parse("10.1.2.2"),
        ifindex: 2,
        mtu: 1400,
        advmss: 1360,
        table: 5000,
      }),
    differences: [],
  },
  route_add_link_scope: {
    request: ({ route }) =>
      route.add({
        destination: Cidr.parse("10.8.0.1/32"),
        ifindex: 2,
        scope: 253,
        preferredSource: Ip.parse("10.1.2.1"),
      }),
    differences: [],
  },
  route_add_onlink: {
    request: ({ route }) =>
      route.add({
        destination: Cidr.parse("0.0.0.0/0"),
        gateway: Ip.parse("192.0.2.1"),
        ifindex: 2,
        isOnLink: true,
        priority: 50,
      }),
    differences: [],
  },
  route_add_ipv6: {
    request: ({ route }) =>
      route.add({
        destination: Cidr.parse("2001:db8:9::/48"),
        gateway: Ip.parse("2001:db8::2"),
        ifindex: 2,
        mtu: 1400,
        priority: 50,
      }),
    differences: [],
  },
  route_prepend: {
    request: ({ route }) =>
      route.prepend({
        destination: Cidr.parse("10.9.0.0/16"),
        gateway: Ip.parse("10.1.2.3"),
        ifindex: 2,
      }),
    differences: [],
  },
  route_replace: {
    request: ({ route }) =>
      route.replace({
        destination: Cidr.parse("10.9.0.0/16"),
        gateway: Ip.parse("10.1.2.3"),
        ifindex: 2,
      }),
    differences: [],
  },
  route_delete: {
    request: ({ route }) =>
      route.del({
        destination: Cidr.parse("10.9.0.0/16"),
        gateway: Ip.parse("10.1.2.2"),
        ifindex: 2,
        table: 5000,
      }),
    differences: [],
  },
  route_show_table: {
    request: ({ route }) => route.list({ family: 4, table: 5000 }),
    differences: [],
  },
  route_show_ipv6: {
    request: ({ route }) => route.list({ family: 6, table: 5000 }),
    differences: [],
  },
  rule_add_ipv4: {
    request: ({ rule }) =>
      rule.add({ source: Cidr.parse("10.1.2.3/32"), table: 100 }),
    differences: [],
  },
  rule_add_ipv6_priority_table: {
    request: ({ rule }) =>
      rule.add({
        source: Cidr.parse("2001:db8::/64"),
        table: 5000,
        priority: 50,
      }),
    differences: [],
  },
  rule_delete: {
    request: ({ rule }) =>
      rule.del({
        source: Cidr.parse("10.1.2.3/32"),
        table: 5000,
        priority: 50,
      }),
    differences: [
      // We delete rules that have packets looked up, and no others.
      "header.action: 0 → 1",
    ],
  },
  rule_show: {
    request: ({ rule }) => rule.list(),
    differences: [
      // Both families together.
      "header.family: 2 → 0",
    ],
  },
  neighbor_replace: {
    request: ({ neighbor }) =>
      neighbor.replace(2, Ip.parse("10.1.2.2"), Mac.parse("0a:58:0a:01:02:02")),
    differences: [],
  },
  neighbor_delete: {
    request: ({ neighbor }) => neighbor.del(2, Ip.parse("10.1.2.2")),
    differences: [
      // The kernel does not look at the state.
      "header.state: 128 → 0",
    ],
  },
  neighbor_show: {
    request: ({ neighbor }) => neighbor.list({ ifindex: 2 }),
    differences: [],
  },
  link_add_ifb: {
    request: ({ link }) =>
      link.addIfb({ name: "ifb7", mtu: 1400, transmitQueueLength: 0 }),
    // It is up after it has got its alias.
    differences: [ECHO, "header.change: 1 → 0", "header.flags: 1 → 0"],
  },
  qdisc_add_htb: {
    request: ({ traffic }) =>
      traffic.qdisc.add({ ...ROOT, kind: "htb", defaultClass: 0x30 }),
    differences: [],
  },
  qdisc_add_tbf: {
    request: ({ traffic }) =>
      traffic.qdisc.add({
        ...ROOT,
        kind: "tbf",
        bucket: {
          bytesPerSecond: 1_250_000,
          bufferTicks: 1_280_000,
          burstBytes: 102_400,
          limitBytes: 133_650,
        },
      }),
    differences: [
      ...tableDetails("bucket.rate"),
      // The Go plugin says nothing of the link layer either: it is Ethernet.
      "attributes.options.bucket.rate.linkLayer: 1 → 0",
      ...table(0, 2, "5d000000"),
    ],
  },
  qdisc_add_tbf_rate64: {
    request: ({ traffic }) =>
      traffic.qdisc.add({
        ...ROOT,
        kind: "tbf",
        bucket: {
          bytesPerSecond: 40e9,
          bufferTicks: 390,
          burstBytes: 1 << 20,
          limitBytes: 1e9 + (1 << 20),
        },
      }),
    differences: [
      // tc reckons with the 32 bits; the kernel takes the burst in any case.
      "attributes.options.bucket.buffer: 3812 → 390",
      ...tableDetails("bucket.rate"),
      "attributes.options.bucket.rate.linkLayer: 1 → 0",
      ...table(0, 2, "00000000"),
    ],
  },
  qdisc_add_bfifo: {
    request: ({ traffic }) =>
      traffic.qdisc.add({ ...ROOT, kind: "bfifo", limitBytes: 7000 }),
    differences: [],
  },
  qdisc_replace: {
    request: ({ traffic }) =>
      traffic.qdisc.replace({ ...ROOT, kind: "bfifo", limitBytes: 8000 }),
    differences: [],
  },
  qdisc_add_ingress: {
    request: ({ traffic }) =>
      traffic.qdisc.add({
        ifindex: 2,
        parent: Parent.Ingress,
        handle: handleOf(0xffff),
        kind: "ingress",
      }),
    differences: [],
  },
  qdisc_add_clsact: {
    request: ({ traffic }) =>
      traffic.qdisc.add({
        ifindex: 2,
        parent: Parent.Ingress,
        handle: handleOf(0xffff),
        kind: "clsact",
      }),
    differences: [],
  },
  qdisc_delete: {
    request: ({ traffic }) => traffic.qdisc.del(2, Parent.Root),
    differences: [],
  },
  qdisc_show: {
    request: ({ traffic }) => traffic.qdisc.list(2),
    differences: [],
  },
  class_add_htb: {
    request: ({ traffic }) =>
      traffic.class.add({
        ifindex: 2,
        parent: handleOf(1),
        handle: handleOf(1, 0x30),
        bytesPerSecond: 1_250_000,
        bufferTicks: 1_280_000,
        quantumBytes: 1514,
      }),
    differences: [
      ...tableDetails("class.ceil"),
      ...tableDetails("class.rate"),
      ...table(0, 4, "5d000000"),
      ...table(1, 3, "5d000000"),
    ],
  },
  class_delete: {
    request: ({ traffic }) => traffic.class.del(2, handleOf(1, 0x30)),
    differences: [],
  },
  class_show: {
    request: ({ traffic }) => traffic.class.list(2),
    differences: [],
  },
  filter_add_redirect: {
    request: ({ traffic }) => traffic.filter.add(REDIRECT),
    differences: [],
  },
  filter_add_ipv4_source: {
    request: ({ traffic }) =>
      traffic.filter.add({
        ...FILTER,
        priority: 16,
        protocol: Protocol.Ipv4,
        keys: matchNetwork(Cidr.parse("10.9.0.0/16"), "source"),
      }),
    differences: [],
  },
  filter_add_ipv6_destination: {
    request: ({ traffic }) =>
      traffic.filter.add({
        ...FILTER,
        priority: 15,
        protocol: Protocol.Ipv6,
        keys: matchNetwork(Cidr.parse("2001:db8:9::/49"), "destination"),
      }),
    differences: [],
  },
  filter_delete: {
    request: ({ traffic }) => traffic.filter.del(REDIRECT),
    differences: [],
  },
  filter_delete_priority: {
    request: ({ traffic }) => traffic.filter.delPriority(REDIRECT),
    differences: [],
  },
  filter_show: {
    request: ({ traffic }) => traffic.filter.list(2, Parent.ClsactIngress),
    differences: [],
  },
};

Deno.test("requests equal the requests of iproute2, except listed differences", async (t) => {
  for (const [name, { request, differences }] of Object.entries(EQUIVALENTS)) {
    await t.step(name, () => {
      const [message] = readGolden(name).messages;
      if (message === undefined) throw new Error("No message");
      assertEquals(compare(message.decoded, record(request)), differences);
    });
  }
});
