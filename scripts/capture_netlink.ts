// deno-lint-ignore-file no-console -- its output is what it is for

/**
 * Captures what iproute2 and the kernel say to each other, as golden files.
 *
 * Runs commands under `strace` in throw-away namespaces and writes
 * `tests/golden/netlink/<name>.json`: the bytes, and what our decoder makes of
 * them. Needs root, iproute2 and strace; with `--render` nothing, since that
 * decodes anew what was captured, as is due when the decoder has learnt
 * something. Read the difference before you commit it: the rendering says
 * whether our decoder is right.
 *
 * ```sh
 * deno run -A scripts/capture_netlink.ts [--render] [name...]
 * ```
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import { inNetns, NetNs } from "../ffi/netns.ts";
import type { Bytes } from "../ffi/libc.ts";
import {
  messageHeader,
  type RawMessage,
  splitMessages,
} from "../ffi/netlink/message.ts";
import { runIn } from "../testing/ip_json.ts";
import {
  findMessageType,
  firstMessage,
  type Rendering,
  renderMessage,
} from "../tests/_harness/netlink_rendering.ts";

/** Stands for the path of the sandbox in commands. */
const SANDBOX = "$SANDBOX";

/** One file: the conversation of interest in one command. */
interface Capture {
  readonly name: string;
  /** Commands that come before. */
  readonly after?: readonly string[];
  readonly command: string;
  /** The request to keep: iproute2 looks links up before it says what it wants. */
  readonly request: string;
}

/** A cable; then one with addresses of both families; then one with routes. */
const CABLE = [
  "ip link set lo up",
  `ip link add veth0 type veth peer name eth0 netns ${SANDBOX}`,
  "ip link set veth0 up",
];
const ADDRESSES = [
  ...CABLE,
  "ip address add 10.1.2.1/24 dev veth0",
  "ip address add 2001:db8::1/64 dev veth0 nodad",
];
const ROUTE = "10.9.0.0/16 via 10.1.2.2";
const ROUTES = [
  ...ADDRESSES,
  `ip route add ${ROUTE} mtu 1400 advmss 1360 table 5000`,
  "ip route add 10.8.0.1/32 dev veth0 scope link src 10.1.2.1 table 5000",
  "ip route add 10.7.0.0/16 table 5000 " +
  "nexthop via 10.1.2.2 nexthop via 192.0.2.1 dev veth0 onlink weight 3",
  "ip -6 route add default via 2001:db8::2 metric 50 table 5000",
];
const RULE = "from 10.1.2.3 lookup 5000 priority 50";
const NEIGHBOR = "10.1.2.2 dev veth0 lladdr 0a:58:0a:01:02:02 nud permanent";
const ROOT = "dev veth0 root handle 1:";
const TBF = "tbf rate 10mbit burst 100kb limit 133650";
const HTB = `${ROOT} htb default 30`;
const CLASS = "dev veth0 parent 1: classid 1:30 htb " +
  "rate 10mbit burst 100kb cburst 100kb quantum 1514";
const SOURCE = "dev veth0 parent 1: protocol ip prio 16 u32 " +
  "match ip src 10.9.0.0/16 flowid 1:1";
const REDIRECT = "dev veth0 ingress protocol all prio 1 u32 match u32 0 0 " +
  "flowid 1:1 action mirred egress redirect dev ifb7";
const REDIRECTED = [
  ...CABLE,
  "ip link add ifb7 index 7 up type ifb",
  "tc qdisc add dev veth0 clsact",
];

const CAPTURES: readonly Capture[] = [
  {
    name: "link_add_veth",
    command: "ip link add veth0 up mtu 1400 type veth " +
      `peer name eth0 mtu 1400 address 0a:58:0a:01:02:03 netns ${SANDBOX}`,
    request: "RTM_NEWLINK",
  },
  {
    name: "link_add_veth_queues",
    command: "ip link add veth0 up numtxqueues 1 numrxqueues 1 type veth " +
      `peer name eth0 numtxqueues 1 numrxqueues 1 netns ${SANDBOX}`,
    request: "RTM_NEWLINK",
  },
  {
    name: "link_add_veth_taken",
    after: CABLE,
    command: "ip link add veth1 type veth peer name veth0",
    request: "RTM_NEWLINK",
  },
  {
    name: "link_set_up",
    after: CABLE,
    command: "ip link set dev veth0 up",
    request: "RTM_NEWLINK",
  },
  {
    name: "link_set_down",
    after: CABLE,
    command: "ip link set dev veth0 down",
    request: "RTM_NEWLINK",
  },
  {
    name: "link_delete",
    after: CABLE,
    command: "ip link delete dev veth0",
    request: "RTM_DELLINK",
  },
  {
    name: "link_show",
    after: [...CABLE, "ip link set veth0 alias cable"],
    command: "ip link show dev veth0",
    request: "RTM_GETLINK",
  },
  {
    name: "link_show_bridge",
    after: ["ip link add br0 type bridge"],
    command: "ip link show dev br0",
    request: "RTM_GETLINK",
  },
  {
    name: "link_add_bridge",
    command:
      "ip link add br0 up mtu 1400 address 0a:58:0a:01:02:01 type bridge",
    request: "RTM_NEWLINK",
  },
  {
    name: "link_set_master",
    after: [...CABLE, "ip link add br0 type bridge"],
    command: "ip link set dev veth0 master br0",
    request: "RTM_NEWLINK",
  },
  {
    name: "link_set_bridge_port",
    after: [
      ...CABLE,
      "ip link add br0 type bridge",
      "ip link set dev veth0 master br0",
    ],
    command: "ip link set dev veth0 type bridge_slave hairpin on isolated on",
    request: "RTM_NEWLINK",
  },
  {
    name: "bridge_vlan_add",
    after: [
      ...CABLE,
      "ip link add br0 type bridge",
      "ip link set dev veth0 master br0",
    ],
    command: "bridge vlan add dev veth0 vid 100 pvid untagged",
    request: "RTM_SETLINK",
  },
  {
    name: "bridge_vlan_add_range",
    after: [
      ...CABLE,
      "ip link add br0 type bridge",
      "ip link set dev veth0 master br0",
    ],
    command: "bridge vlan add dev veth0 vid 200-210",
    request: "RTM_SETLINK",
  },
  {
    name: "bridge_vlan_delete",
    after: [
      ...CABLE,
      "ip link add br0 type bridge",
      "ip link set dev veth0 master br0",
    ],
    command: "bridge vlan del dev veth0 vid 1",
    request: "RTM_DELLINK",
  },
  {
    name: "link_set_vlan_filtering",
    after: ["ip link add br0 type bridge"],
    command: "ip link set dev br0 type bridge vlan_filtering 1",
    request: "RTM_NEWLINK",
  },
  {
    name: "link_set_address",
    after: CABLE,
    command: "ip link set dev veth0 address 0a:58:0a:01:02:04",
    request: "RTM_NEWLINK",
  },
  {
    name: "link_show_absent",
    command: "ip link show dev veth0",
    request: "RTM_GETLINK",
  },
  {
    name: "address_add_ipv4",
    after: CABLE,
    command: "ip address add 10.1.2.1/24 broadcast + dev veth0",
    request: "RTM_NEWADDR",
  },
  {
    name: "address_add_ipv4_noprefixroute",
    after: CABLE,
    command: "ip address add 10.1.2.1/32 dev veth0 noprefixroute",
    request: "RTM_NEWADDR",
  },
  {
    name: "address_add_ipv6",
    after: CABLE,
    command: "ip address add 2001:db8::1/64 dev veth0 nodad",
    request: "RTM_NEWADDR",
  },
  {
    name: "address_replace",
    after: ADDRESSES,
    command: "ip address replace 10.1.2.1/24 broadcast + dev veth0",
    request: "RTM_NEWADDR",
  },
  {
    name: "address_add_taken",
    after: ADDRESSES,
    command: "ip address add 10.1.2.1/24 dev veth0",
    request: "RTM_NEWADDR",
  },
  {
    name: "address_delete",
    after: ADDRESSES,
    command: "ip address delete 10.1.2.1/24 dev veth0",
    request: "RTM_DELADDR",
  },
  {
    name: "address_show",
    after: ADDRESSES,
    command: "ip address show dev veth0",
    request: "RTM_GETADDR",
  },
  {
    name: "route_add_metrics_table",
    after: ADDRESSES,
    command: `ip route add ${ROUTE} dev veth0 mtu 1400 advmss 1360 table 5000`,
    request: "RTM_NEWROUTE",
  },
  {
    name: "route_add_link_scope",
    after: ADDRESSES,
    command: "ip route add 10.8.0.1/32 dev veth0 scope link src 10.1.2.1",
    request: "RTM_NEWROUTE",
  },
  {
    name: "route_add_onlink",
    after: ADDRESSES,
    command: "ip route add default via 192.0.2.1 dev veth0 onlink metric 50",
    request: "RTM_NEWROUTE",
  },
  {
    name: "route_add_multipath",
    after: ADDRESSES,
    command: "ip route add 10.7.0.0/16 " +
      "nexthop via 10.1.2.2 nexthop via 192.0.2.1 dev veth0 onlink weight 3",
    request: "RTM_NEWROUTE",
  },
  {
    name: "route_add_unreachable",
    after: ADDRESSES,
    command: "ip route add 10.9.0.0/16 via 192.0.2.1",
    request: "RTM_NEWROUTE",
  },
  {
    name: "route_add_ipv6",
    after: ADDRESSES,
    command: "ip -6 route add 2001:db8:9::/48 via 2001:db8::2 dev veth0 " +
      "mtu 1400 metric 50",
    request: "RTM_NEWROUTE",
  },
  {
    name: "route_prepend",
    after: [...ADDRESSES, `ip route add ${ROUTE}`],
    command: "ip route prepend 10.9.0.0/16 via 10.1.2.3 dev veth0",
    request: "RTM_NEWROUTE",
  },
  {
    name: "route_replace",
    after: [...ADDRESSES, `ip route add ${ROUTE}`],
    command: "ip route replace 10.9.0.0/16 via 10.1.2.3 dev veth0",
    request: "RTM_NEWROUTE",
  },
  {
    name: "route_delete",
    after: [...ADDRESSES, `ip route add ${ROUTE} table 5000`],
    command: `ip route delete ${ROUTE} dev veth0 table 5000`,
    request: "RTM_DELROUTE",
  },
  {
    name: "route_show_table",
    after: ROUTES,
    command: "ip -4 route show table 5000",
    request: "RTM_GETROUTE",
  },
  {
    name: "route_show_ipv6",
    after: ROUTES,
    command: "ip -6 route show table 5000",
    request: "RTM_GETROUTE",
  },
  {
    name: "route_show_absent_table",
    command: "ip -4 route show table 7777",
    request: "RTM_GETROUTE",
  },
  {
    name: "neighbor_replace",
    after: ADDRESSES,
    command: `ip neighbor replace ${NEIGHBOR}`,
    request: "RTM_NEWNEIGH",
  },
  {
    name: "neighbor_delete",
    after: [...ADDRESSES, `ip neighbor add ${NEIGHBOR}`],
    command: "ip neighbor delete 10.1.2.2 dev veth0",
    request: "RTM_DELNEIGH",
  },
  {
    name: "neighbor_show",
    after: [...ADDRESSES, `ip neighbor add ${NEIGHBOR}`],
    command: "ip neighbor show dev veth0",
    request: "RTM_GETNEIGH",
  },
  {
    name: "rule_add_ipv4",
    command: "ip rule add from 10.1.2.3 lookup 100",
    request: "RTM_NEWRULE",
  },
  {
    name: "rule_add_ipv6_priority_table",
    command: "ip -6 rule add from 2001:db8::/64 lookup 5000 priority 50",
    request: "RTM_NEWRULE",
  },
  {
    name: "rule_add_taken",
    after: [`ip rule add ${RULE}`],
    command: `ip rule add ${RULE}`,
    request: "RTM_NEWRULE",
  },
  {
    name: "rule_delete",
    after: [`ip rule add ${RULE}`],
    command: `ip rule delete ${RULE}`,
    request: "RTM_DELRULE",
  },
  {
    name: "rule_show",
    after: [
      `ip rule add ${RULE}`,
      "ip rule add from 10.1.2.4 to 10.9.0.0/16 fwmark 7 lookup 100",
    ],
    command: "ip -4 rule show",
    request: "RTM_GETRULE",
  },
  {
    name: "rule_show_ipv6",
    command: "ip -6 rule show",
    request: "RTM_GETRULE",
  },
  {
    name: "link_add_ifb",
    command: "ip link add ifb7 up mtu 1400 txqueuelen 0 type ifb",
    request: "RTM_NEWLINK",
  },
  {
    name: "qdisc_add_tbf",
    after: CABLE,
    command: `tc qdisc add ${ROOT} ${TBF}`,
    request: "RTM_NEWQDISC",
  },
  {
    name: "qdisc_add_tbf_rate64",
    after: CABLE,
    command: `tc qdisc add ${ROOT} tbf rate 320gbit burst 1mb latency 25ms`,
    request: "RTM_NEWQDISC",
  },
  {
    name: "qdisc_add_taken",
    after: [...CABLE, `tc qdisc add ${HTB}`],
    command: `tc qdisc add ${HTB}`,
    request: "RTM_NEWQDISC",
  },
  {
    name: "qdisc_replace",
    after: [...CABLE, `tc qdisc add ${ROOT} bfifo limit 7000`],
    command: `tc qdisc replace ${ROOT} bfifo limit 8000`,
    request: "RTM_NEWQDISC",
  },
  {
    name: "qdisc_add_htb",
    after: CABLE,
    command: `tc qdisc add ${HTB}`,
    request: "RTM_NEWQDISC",
  },
  {
    name: "qdisc_add_bfifo",
    after: CABLE,
    command: `tc qdisc add ${ROOT} bfifo limit 7000`,
    request: "RTM_NEWQDISC",
  },
  {
    name: "qdisc_add_ingress",
    after: CABLE,
    command: "tc qdisc add dev veth0 ingress",
    request: "RTM_NEWQDISC",
  },
  {
    name: "qdisc_add_clsact",
    after: CABLE,
    command: "tc qdisc add dev veth0 clsact",
    request: "RTM_NEWQDISC",
  },
  {
    name: "qdisc_delete",
    after: [...CABLE, `tc qdisc add ${ROOT} ${TBF}`],
    command: "tc qdisc delete dev veth0 root",
    request: "RTM_DELQDISC",
  },
  {
    name: "qdisc_show",
    after: [
      ...CABLE,
      `tc qdisc add ${ROOT} ${TBF}`,
      "tc qdisc add dev veth0 clsact",
    ],
    command: "tc qdisc show dev veth0",
    request: "RTM_GETQDISC",
  },
  {
    name: "class_add_htb",
    after: [...CABLE, `tc qdisc add ${HTB}`],
    command: `tc class add ${CLASS}`,
    request: "RTM_NEWTCLASS",
  },
  {
    name: "class_delete",
    after: [...CABLE, `tc qdisc add ${HTB}`, `tc class add ${CLASS}`],
    command: "tc class delete dev veth0 classid 1:30",
    request: "RTM_DELTCLASS",
  },
  {
    name: "class_show",
    after: [...CABLE, `tc qdisc add ${HTB}`, `tc class add ${CLASS}`],
    command: "tc class show dev veth0",
    request: "RTM_GETTCLASS",
  },
  {
    name: "filter_add_redirect",
    after: REDIRECTED,
    command: `tc filter add ${REDIRECT}`,
    request: "RTM_NEWTFILTER",
  },
  {
    name: "filter_add_ipv4_source",
    after: [...CABLE, `tc qdisc add ${HTB}`],
    command: `tc filter add ${SOURCE}`,
    request: "RTM_NEWTFILTER",
  },
  {
    name: "filter_add_ipv6_destination",
    after: [...CABLE, `tc qdisc add ${HTB}`],
    command: "tc filter add dev veth0 parent 1: protocol ipv6 prio 15 u32 " +
      "match ip6 dst 2001:db8:9::/49 flowid 1:1",
    request: "RTM_NEWTFILTER",
  },
  {
    name: "filter_delete",
    after: [...REDIRECTED, `tc filter add ${REDIRECT}`],
    command: "tc filter delete dev veth0 ingress protocol all prio 1 " +
      "handle 800::800 u32",
    request: "RTM_DELTFILTER",
  },
  {
    name: "filter_delete_priority",
    after: [...REDIRECTED, `tc filter add ${REDIRECT}`],
    command: "tc filter delete dev veth0 ingress protocol all prio 1",
    request: "RTM_DELTFILTER",
  },
  {
    name: "filter_show",
    after: [...REDIRECTED, `tc filter add ${REDIRECT}`],
    command: "tc filter show dev veth0 ingress",
    request: "RTM_GETTFILTER",
  },
];

/** What a golden file holds. */
export interface Golden {
  readonly command: string;
  readonly iproute2: string;
  readonly kernel: string;
  /** The request first, then what the kernel answered. */
  readonly messages: readonly GoldenMessage[];
}

/** One message of a golden file. */
export interface GoldenMessage {
  readonly direction: "sent" | "received";
  /** The whole message, its header included, in hex. */
  readonly bytes: string;
  readonly decoded: Rendering;
}

/** A datagram as it was seen, and the socket, as iproute2 has several. */
interface Datagram {
  readonly socket: string;
  readonly direction: GoldenMessage["direction"];
  readonly bytes: Bytes;
}

/** Width of golden files, where bytes let them. */
const MAX_LINE = 100;

/** Tells strace to dump what is sent and received, and not to interpret it. */
const STRACE = [
  ...["-e", "trace=sendmsg,sendto,recvmsg"],
  ...["-e", "raw=all", "-e", "read=all", "-e", "write=all"],
  ...["-e", "signal=none"],
];

function trace(netns: NetNs, command: readonly string[]): Datagram[] {
  const file = Deno.makeTempFileSync();
  try {
    const args = [...STRACE, "-o", file, ...command];
    // It fails if the command does, and refusals are worth capturing too.
    inNetns(netns, () => new Deno.Command("strace", { args }).outputSync());
    return parseTrace(Deno.readTextFileSync(file));
  } finally {
    Deno.removeSync(file);
  }
}

/** Reads `sendmsg(0x3, ...` and the dump that follows, as ` | 00010  de ad  .. |`. */
function parseTrace(text: string): Datagram[] {
  return text.split(/^(?=\w+\()/m).flatMap((call) => {
    // Sixteen bytes a line, with one more space in the middle; then as text.
    const hex = [...call.matchAll(/^ \| [\da-f]{5} {2}([\da-f ]{48}) /gm)]
      .map(([, bytes = ""]) => bytes.replaceAll(" ", "")).join("");
    const [, name = "", socket = ""] = /^(\w+)\((\w+)/.exec(call) ?? [];
    if (hex === "") return [];
    const direction = name.startsWith("recv") ? "received" : "sent";
    return [{ socket, direction, bytes: Uint8Array.fromHex(hex) }];
  });
}

/** Keeps the first request of a type, and the answers to it. */
function keepConversation(
  datagrams: readonly Datagram[],
  name: string,
): GoldenMessage[] {
  const at = datagrams.findIndex(({ direction, bytes }) => {
    if (direction !== "sent") return false;
    const { type, sequence } = firstMessage(bytes);
    // With number 0 iproute2 tries out what the kernel knows.
    return sequence !== 0 && findMessageType(type)?.name === name;
  });
  const [sent, ...later] = datagrams.slice(at);
  if (at < 0 || sent === undefined) throw new Error(`Cannot find a ${name}`);
  const request = firstMessage(sent.bytes);
  const replies = later.filter(({ direction, socket }) =>
    direction === "received" && socket === sent.socket
  ).flatMap(({ bytes }) => [...splitMessages(bytes)])
    .filter(({ sequence }) => sequence === request.sequence);
  return [request, ...replies].map((message) => {
    const direction = message === request ? "sent" : "received";
    const bytes = wholeOf(message.body).toHex();
    return { direction, bytes, decoded: renderMessage(message, request) };
  });
}

/** Returns a message with the header that precedes its body in memory. */
function wholeOf(body: Bytes): Bytes {
  const { size } = messageHeader;
  return new Uint8Array(
    body.buffer,
    body.byteOffset - size,
    body.length + size,
  );
}

function capture({ after = [], command, request }: Capture): Golden {
  using host = NetNs.create();
  using sandbox = NetNs.create();
  const words = (line: string): string[] =>
    line.replaceAll(SANDBOX, sandbox.path).split(" ");
  for (const line of after) {
    const [name = "", ...args] = words(line);
    runIn(host, name, ...args);
  }
  const messages = keepConversation(trace(host, words(command)), request);
  return { command, ...versions(host), messages };
}

function versions(netns: NetNs): Pick<Golden, "iproute2" | "kernel"> {
  const [iproute2 = ""] = /(?<=iproute2-)[\d.]+/
    .exec(runIn(netns, "ip", "-V")) ?? [];
  const [kernel = ""] = /^\d+\.\d+/.exec(Deno.osRelease()) ?? [];
  return { iproute2, kernel };
}

/** Formats JSON with whatever is short enough on one line. */
function formatJson(value: unknown, indent = ""): string {
  const line = JSON.stringify(value);
  if (typeof value !== "object" || value === null) return line;
  if (indent.length + line.length <= MAX_LINE) return line;
  const inner = `${indent}  `;
  const parts = Object.entries(value).map(([key, part]) =>
    inner + (Array.isArray(value) ? "" : `${JSON.stringify(key)}: `) +
    formatJson(part, inner)
  ).join(",\n");
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${parts}\n${indent}${close}`;
}

/** Decodes anew what was captured. */
function renderAgain({ messages, ...rest }: Golden): Golden {
  const decode = ({ bytes }: GoldenMessage): RawMessage =>
    firstMessage(Uint8Array.fromHex(bytes));
  const [request] = messages.map(decode);
  const rendered = messages.map((message) => ({
    ...message,
    decoded: renderMessage(decode(message), request),
  }));
  return { ...rest, messages: rendered };
}

if (import.meta.main) {
  const { render, _: names } = parseArgs(Deno.args, { boolean: ["render"] });
  const folder = new URL("../tests/golden/netlink/", import.meta.url);
  Deno.mkdirSync(folder, { recursive: true });
  for (const one of CAPTURES) {
    if (names.length > 0 && !names.includes(one.name)) continue;
    const file = new URL(`${one.name}.json`, folder);
    const golden = render
      ? renderAgain(JSON.parse(Deno.readTextFileSync(file)))
      : capture(one);
    Deno.writeTextFileSync(file, `${formatJson(golden)}\n`);
    console.log(one.name);
  }
}
