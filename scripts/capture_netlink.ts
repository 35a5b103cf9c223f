// deno-lint-ignore-file no-console -- a script for the terminal

/**
 * Captures the netlink messages between iproute2 and the kernel as golden files.
 *
 * Runs commands under `strace` in throw-away namespaces and writes
 * `tests/golden/netlink/<name>.json`: the bytes, and how our decoder reads them.
 * Needs root, iproute2 and strace. After a change of the decoder, `--render`
 * decodes the captured bytes again, and needs none of these. Read the diff
 * before you commit it: it shows whether the decoder is right.
 *
 * ```sh
 * deno task deno run -A scripts/capture_netlink.ts [--render] [name...]
 * ```
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import type { Bytes } from "../net/bytes.ts";
import { inNetns, NetNs } from "../ffi/netns.ts";
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

/** Placeholder for the path of the sandbox in commands. */
const SANDBOX = "$SANDBOX";

/** A veth pair; then with addresses of both families; then with routes. */
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
const BRIDGE = ["ip link add br0 type bridge"];
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

/** Commands to capture by the name of their file, after those that prepare the scene. */
const CAPTURES: readonly [
  after: readonly string[],
  commands: Readonly<Record<string, string>>,
][] = [
  [[], {
    link_add_veth: "ip link add veth0 up mtu 1400 type veth " +
      `peer name eth0 mtu 1400 address 0a:58:0a:01:02:03 netns ${SANDBOX}`,
    link_add_veth_queues:
      "ip link add veth0 up numtxqueues 1 numrxqueues 1 type veth " +
      `peer name eth0 numtxqueues 1 numrxqueues 1 netns ${SANDBOX}`,
    link_add_bridge:
      "ip link add br0 up mtu 1400 address 0a:58:0a:01:02:01 type bridge",
    link_show_absent: "ip link show dev veth0",
    route_show_absent_table: "ip -4 route show table 7777",
    rule_add_ipv4: "ip rule add from 10.1.2.3 lookup 100",
    rule_add_ipv6_priority_table:
      "ip -6 rule add from 2001:db8::/64 lookup 5000 priority 50",
    rule_show_ipv6: "ip -6 rule show",
    link_add_ifb: "ip link add ifb7 up mtu 1400 txqueuelen 0 type ifb",
  }],
  [CABLE, {
    link_add_veth_taken: "ip link add veth1 type veth peer name veth0",
    link_set_up: "ip link set dev veth0 up",
    link_set_down: "ip link set dev veth0 down",
    link_delete: "ip link delete dev veth0",
    link_set_address: "ip link set dev veth0 address 0a:58:0a:01:02:04",
    address_add_ipv4: "ip address add 10.1.2.1/24 broadcast + dev veth0",
    address_add_ipv4_noprefixroute:
      "ip address add 10.1.2.1/32 dev veth0 noprefixroute",
    address_add_ipv6: "ip address add 2001:db8::1/64 dev veth0 nodad",
    qdisc_add_tbf: `tc qdisc add ${ROOT} ${TBF}`,
    qdisc_add_tbf_rate64:
      `tc qdisc add ${ROOT} tbf rate 320gbit burst 1mb latency 25ms`,
    qdisc_add_htb: `tc qdisc add ${HTB}`,
    qdisc_add_bfifo: `tc qdisc add ${ROOT} bfifo limit 7000`,
    qdisc_add_ingress: "tc qdisc add dev veth0 ingress",
    qdisc_add_clsact: "tc qdisc add dev veth0 clsact",
  }],
  [[...CABLE, "ip link set veth0 alias cable"], {
    link_show: "ip link show dev veth0",
  }],
  [BRIDGE, {
    link_show_bridge: "ip link show dev br0",
    link_set_vlan_filtering: "ip link set dev br0 type bridge vlan_filtering 1",
  }],
  [[...CABLE, ...BRIDGE], {
    link_set_master: "ip link set dev veth0 master br0",
  }],
  [[...CABLE, ...BRIDGE, "ip link set dev veth0 master br0"], {
    link_set_bridge_port:
      "ip link set dev veth0 type bridge_slave hairpin on isolated on",
    bridge_vlan_add: "bridge vlan add dev veth0 vid 100 pvid untagged",
    bridge_vlan_add_range: "bridge vlan add dev veth0 vid 200-210",
    bridge_vlan_delete: "bridge vlan del dev veth0 vid 1",
  }],
  [ADDRESSES, {
    address_replace: "ip address replace 10.1.2.1/24 broadcast + dev veth0",
    address_add_taken: "ip address add 10.1.2.1/24 dev veth0",
    address_delete: "ip address delete 10.1.2.1/24 dev veth0",
    address_show: "ip address show dev veth0",
    route_add_metrics_table:
      `ip route add ${ROUTE} dev veth0 mtu 1400 advmss 1360 table 5000`,
    route_add_link_scope:
      "ip route add 10.8.0.1/32 dev veth0 scope link src 10.1.2.1",
    route_add_onlink:
      "ip route add default via 192.0.2.1 dev veth0 onlink metric 50",
    route_add_multipath: "ip route add 10.7.0.0/16 " +
      "nexthop via 10.1.2.2 nexthop via 192.0.2.1 dev veth0 onlink weight 3",
    route_add_unreachable: "ip route add 10.9.0.0/16 via 192.0.2.1",
    route_add_ipv6:
      "ip -6 route add 2001:db8:9::/48 via 2001:db8::2 dev veth0 " +
      "mtu 1400 metric 50",
    neighbor_replace: `ip neighbor replace ${NEIGHBOR}`,
  }],
  [[...ADDRESSES, `ip route add ${ROUTE}`], {
    route_prepend: "ip route prepend 10.9.0.0/16 via 10.1.2.3 dev veth0",
    route_replace: "ip route replace 10.9.0.0/16 via 10.1.2.3 dev veth0",
  }],
  [[...ADDRESSES, `ip route add ${ROUTE} table 5000`], {
    route_delete: `ip route delete ${ROUTE} dev veth0 table 5000`,
  }],
  [ROUTES, {
    route_show_table: "ip -4 route show table 5000",
    route_show_ipv6: "ip -6 route show table 5000",
  }],
  [[...ADDRESSES, `ip neighbor add ${NEIGHBOR}`], {
    neighbor_delete: "ip neighbor delete 10.1.2.2 dev veth0",
    neighbor_show: "ip neighbor show dev veth0",
  }],
  [[`ip rule add ${RULE}`], {
    rule_add_taken: `ip rule add ${RULE}`,
    rule_delete: `ip rule delete ${RULE}`,
  }],
  [[
    `ip rule add ${RULE}`,
    "ip rule add from 10.1.2.4 to 10.9.0.0/16 fwmark 7 lookup 100",
  ], {
    rule_show: "ip -4 rule show",
  }],
  [[...CABLE, `tc qdisc add ${HTB}`], {
    qdisc_add_taken: `tc qdisc add ${HTB}`,
    class_add_htb: `tc class add ${CLASS}`,
    filter_add_ipv4_source: `tc filter add ${SOURCE}`,
    filter_add_ipv6_destination:
      "tc filter add dev veth0 parent 1: protocol ipv6 prio 15 u32 " +
      "match ip6 dst 2001:db8:9::/49 flowid 1:1",
  }],
  [[...CABLE, `tc qdisc add ${ROOT} bfifo limit 7000`], {
    qdisc_replace: `tc qdisc replace ${ROOT} bfifo limit 8000`,
  }],
  [[...CABLE, `tc qdisc add ${ROOT} ${TBF}`], {
    qdisc_delete: "tc qdisc delete dev veth0 root",
  }],
  [[...CABLE, `tc qdisc add ${ROOT} ${TBF}`, "tc qdisc add dev veth0 clsact"], {
    qdisc_show: "tc qdisc show dev veth0",
  }],
  [[...CABLE, `tc qdisc add ${HTB}`, `tc class add ${CLASS}`], {
    class_delete: "tc class delete dev veth0 classid 1:30",
    class_show: "tc class show dev veth0",
  }],
  [REDIRECTED, {
    filter_add_redirect: `tc filter add ${REDIRECT}`,
  }],
  [[...REDIRECTED, `tc filter add ${REDIRECT}`], {
    filter_delete: "tc filter delete dev veth0 ingress protocol all prio 1 " +
      "handle 800::800 u32",
    filter_delete_priority:
      "tc filter delete dev veth0 ingress protocol all prio 1",
    filter_show: "tc filter show dev veth0 ingress",
  }],
];

const OBJECTS: Readonly<Record<string, string>> = {
  address: "ADDR",
  neighbor: "NEIGH",
  class: "TCLASS",
  filter: "TFILTER",
};
const VERBS: Readonly<Record<string, string>> = { delete: "DEL", show: "GET" };

/** Returns the request to keep: iproute2 looks links up before it sends it. */
function requestOf(name: string): string {
  if (name.startsWith("bridge_vlan_add")) return "RTM_SETLINK";
  if (name === "bridge_vlan_delete") return "RTM_DELLINK";
  const [object = "", verb = ""] = name.split("_");
  return `RTM_${VERBS[verb] ?? "NEW"}${
    OBJECTS[object] ?? object.toUpperCase()
  }`;
}

/** The content of a golden file. */
export interface Golden {
  readonly command: string;
  readonly iproute2: string;
  readonly kernel: string;
  /** The request first, then the kernel's replies. */
  readonly messages: readonly GoldenMessage[];
}

/** One message of a golden file. */
export interface GoldenMessage {
  readonly direction: "sent" | "received";
  /** The whole message with its header, in hex. */
  readonly bytes: string;
  readonly decoded: Rendering;
}

/** A datagram and its socket, since iproute2 opens several. */
interface Datagram {
  readonly socket: string;
  readonly direction: GoldenMessage["direction"];
  readonly bytes: Bytes;
}

/** Line width of golden files, except for long bytes. */
const MAX_LINE = 100;

/** Makes strace dump messages without interpreting them. */
const STRACE = [
  ...["-e", "trace=sendmsg,sendto,recvmsg"],
  ...["-e", "raw=all", "-e", "read=all", "-e", "write=all"],
  ...["-e", "signal=none"],
];

function trace(netns: NetNs, command: readonly string[]): Datagram[] {
  const file = Deno.makeTempFileSync();
  try {
    const args = [...STRACE, "-o", file, ...command];
    // Fails with the command; refusals are captured too.
    inNetns(netns, () => new Deno.Command("strace", { args }).outputSync());
    return parseTrace(Deno.readTextFileSync(file));
  } finally {
    Deno.removeSync(file);
  }
}

/** Parses `sendmsg(0x3, ...` and the dump after it, such as ` | 00010  de ad  .. |`. */
function parseTrace(text: string): Datagram[] {
  return text.split(/^(?=\w+\()/m).flatMap((call) => {
    // 16 bytes per line with an extra space in the middle, then as text.
    const hex = [...call.matchAll(/^ \| [\da-f]{5} {2}([\da-f ]{48}) /gm)]
      .map(([, bytes = ""]) => bytes.replaceAll(" ", "")).join("");
    const [, name = "", socket = ""] = /^(\w+)\((\w+)/.exec(call) ?? [];
    if (hex === "") return [];
    const direction = name.startsWith("recv") ? "received" : "sent";
    return [{ socket, direction, bytes: Uint8Array.fromHex(hex) }];
  });
}

/** Keeps the first request of a type and its replies. */
function keepConversation(
  datagrams: readonly Datagram[],
  name: string,
): GoldenMessage[] {
  const at = datagrams.findIndex(({ direction, bytes }) => {
    if (direction !== "sent") return false;
    const { type, sequence } = firstMessage(bytes);
    // iproute2 probes the kernel with sequence number 0.
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

/** Returns a message with its header, which precedes the body in memory. */
function wholeOf(body: Bytes): Bytes {
  const { size } = messageHeader;
  return new Uint8Array(
    body.buffer,
    body.byteOffset - size,
    body.length + size,
  );
}

function capture(
  name: string,
  command: string,
  after: readonly string[],
): Golden {
  using host = NetNs.create();
  using sandbox = NetNs.create();
  const words = (line: string): string[] =>
    line.replaceAll(SANDBOX, sandbox.path).split(" ");
  for (const line of after) {
    const [program = "", ...args] = words(line);
    runIn(host, program, ...args);
  }
  const datagrams = trace(host, words(command));
  const messages = keepConversation(datagrams, requestOf(name));
  return { command, ...versions(host), messages };
}

function versions(netns: NetNs): Pick<Golden, "iproute2" | "kernel"> {
  const [iproute2 = ""] = /(?<=iproute2-)[\d.]+/
    .exec(runIn(netns, "ip", "-V")) ?? [];
  const [kernel = ""] = /^\d+\.\d+/.exec(Deno.osRelease()) ?? [];
  return { iproute2, kernel };
}

/** Formats JSON; what fits is on one line. */
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

/** Decodes the captured bytes again. */
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
  const directory = new URL("../tests/golden/netlink/", import.meta.url);
  Deno.mkdirSync(directory, { recursive: true });
  const captures = CAPTURES.flatMap(([after, commands]) =>
    Object.entries(commands).map((entry) => [...entry, after] as const)
  );
  for (const [name, command, after] of captures) {
    if (names.length > 0 && !names.includes(name)) continue;
    const file = new URL(`${name}.json`, directory);
    const golden = render
      ? renderAgain(JSON.parse(Deno.readTextFileSync(file)))
      : capture(name, command, after);
    Deno.writeTextFileSync(file, `${formatJson(golden)}\n`);
    console.log(name);
  }
}
