/**
 * Traces flows through the rules of a namespace, and reports which rule decided about
 * each packet, including rules of iptables-nft.
 *
 * The rules that select the flows are in separate tables, which the kernel deletes
 * with their socket. Other flows are not traced.
 *
 * @module
 */

import { type Bytes, u16be } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { NetlinkError } from "../netlink/error.ts";
import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import type { NetNs } from "../netns.ts";
import { ADDRESS_OFFSETS } from "../socket/ip_header.ts";
import {
  addChain,
  addOwnTable,
  appendRule,
  type Change,
  type Hook,
  type Table,
} from "./change.ts";
import {
  type Expression,
  jumpTo,
  matchBytes,
  matchFrameType,
  matchProtocol,
  trace,
} from "./expression.ts";
import { newTrace } from "./message.ts";
import { familyOf, Nftables } from "./mod.ts";

/** IP protocols. Source: include/uapi/linux/in.h, in6.h. */
export const IpProtocol = { icmp: 1, tcp: 6, udp: 17, icmp6: 58 } as const;

/** A flow as its sender sees it. NAT can change the other addresses and ports. */
export interface Flow {
  /** The IP protocol's number. */
  readonly protocol: number;
  /** The sender's address. */
  readonly source: Ip;
  /** The sender's port, or the identifier of echo requests. */
  readonly id: number;
}

/** The decision of a rule or of a chain's policy about a packet. */
export interface TraceStep {
  readonly table: Table;
  readonly chain: string;
  /** Undefined for a policy. */
  readonly handle: bigint | undefined;
  /** One of `VERDICTS`; undefined if the packet continues with the next rule. */
  readonly verdict: number | undefined;
  /** The network header, where a base chain begins. */
  readonly network: Bytes | undefined;
  /** Index of the link through which the packet arrived. */
  readonly input: number | undefined;
  /** Index of the link through which the packet leaves. */
  readonly output: number | undefined;
  /** Identifies the packet among packets that pass at the same time. */
  readonly packet: number;
  /** The transport header, where a base chain begins. */
  readonly transport: Bytes | undefined;
}

/** Source: include/uapi/linux/netfilter/nfnetlink.h `NFNLGRP_NFTRACE`. */
const TRACE_GROUP = 9;
/** Source: `NFT_TRACETYPE_POLICY`. */
const POLICY = 1;
/** A priority that is lower than in any program's chains. */
const FIRST = -0x7fff_ffff;
/**
 * A priority after destination NAT, when an answer has the sender's own address
 * again.
 */
const AFTER_NAT = -99;
/** Source: include/uapi/linux/if_ether.h `ETH_P_*`. */
const FRAME_TYPES = { 4: 0x0800, 6: 0x86dd, arp: 0x0806 } as const;
/** Offsets of the sender's and the target's address in an ARP packet. Source: RFC 826. */
export const ARP_SENDER = 14, ARP_TARGET = 24;
/** Source: RFC 4861: types of neighbour solicitations and advertisements. */
const SOLICITATION = 135, ADVERTISEMENT = 136;
/** The chain with the rules that select the flow. */
const FLOW = "flow";
/** Prefix of the tables' names. */
const PREFIX = `cni_probe_`;
let traces = 0;

/** Traces of a namespace. Dispose of it to remove its tables. */
export class FlowTrace implements Disposable {
  readonly #events: NetlinkSocket;
  readonly #tables: Nftables;
  /** The chains that select the flow. */
  readonly #selecting: readonly Selecting[];

  private constructor(
    events: NetlinkSocket,
    tables: Nftables,
    selecting: readonly Selecting[],
  ) {
    this.#events = events;
    this.#tables = tables;
    this.#selecting = selecting;
  }

  /**
   * Begins to trace flows.
   *
   * @param links Names of links whose rules of family netdev are traced as well
   * @throws {SyscallError} If the namespace cannot be entered; EPROTONOSUPPORT
   * if the kernel has no nf_tables
   */
  static open(
    netns: NetNs,
    flows: readonly Flow[],
    links: readonly string[] = [],
  ): FlowTrace {
    using stack = new DisposableStack();
    const events = stack.use(NetlinkSocket.open(netns, Protocol.Netfilter));
    events.subscribe(TRACE_GROUP);
    const tables = stack.use(Nftables.open(netns.path));
    const selecting = listTables(flows, links).filter((one) => {
      try {
        tables.commit(one.changes);
        return true;
      } catch (error) {
        // A kernel without that family, or before Linux 5.12, traces fewer rules.
        if (error instanceof NetlinkError) return false;
        throw error;
      }
    });
    stack.move();
    return new FlowTrace(events, tables, selecting);
  }

  /** Traces the answers as well, as they are before NAT is undone. */
  traceAnswers({ protocol }: Flow, { source, destination, id }: Answers): void {
    const { family } = source;
    const at = ADDRESS_OFFSETS[family];
    const rule = [
      ...matchBytes("network", at.source, new Uint8Array(source.toBytes())),
      ...matchBytes(
        "network",
        at.destination,
        new Uint8Array(destination.toBytes()),
      ),
      ...matchProtocol(protocol),
      ...matchBytes(
        "transport",
        isIcmp(protocol) ? ECHO_ID : DESTINATION_PORT,
        u16be.encode(id),
      ),
      ...trace(),
    ];
    const others = ["arp", family === 4 ? "ip6" : "ip"];
    this.#tables.commit(
      this.#selecting.filter(({ table }) => !others.includes(table.family))
        .map(({ table, chain }) =>
          appendRule(table, {
            chain,
            expressions: hasFrames(table)
              ? [...matchFrameType(FRAME_TYPES[family]), ...rule]
              : rule,
          })
        ),
    );
  }

  /** Returns the decisions since the last call, in order. */
  take(): TraceStep[] {
    return this.#events.receiveNotices(newTrace).flatMap(
      ({ header, attributes }) => {
        const { table = "", chain = "", handle, type, verdict } = attributes;
        const family = familyOf(header.family);
        if (family === undefined || table.startsWith(PREFIX)) return [];
        const { policy, network, transport, input, output } = attributes;
        return [{
          table: { family, name: table },
          chain,
          handle: type === POLICY ? undefined : handle,
          verdict: type === POLICY ? policy : verdict?.code,
          network,
          transport,
          input,
          output,
          packet: attributes.packet ?? 0,
        }];
      },
    );
  }

  /** Removes the tables. */
  [Symbol.dispose](): void {
    this.#tables[Symbol.dispose]();
    this.#events[Symbol.dispose]();
  }
}

/** The answers of a flow, as they arrive at the node. */
export interface Answers {
  readonly source: Ip;
  readonly destination: Ip;
  /** The destination's port, or the identifier of echo replies. */
  readonly id: number;
}

/** A chain that selects a flow, and the changes that add it and its table. */
interface Selecting {
  readonly table: Table;
  readonly chain: string;
  readonly changes: readonly Change[];
}

/** Reports whether a table can receive packets of any type. */
function hasFrames({ family }: Table): boolean {
  return family === "bridge" || family === "netdev";
}

/**
 * Offsets of a flow's echo ID and ports in the transport header. Source: RFC 792, RFC
 * 9293, RFC 768.
 */
export const ECHO_ID = 4, SOURCE_PORT = 0, DESTINATION_PORT = 2;

/** Reports whether an IP protocol is ICMP or ICMPv6. */
export function isIcmp(protocol: number): boolean {
  return protocol === IpProtocol.icmp || protocol === IpProtocol.icmp6;
}

/** Lists the tables, each of which is added with a separate batch. */
function listTables(
  flows: readonly Flow[],
  links: readonly string[],
): Selecting[] {
  const name = `${PREFIX}${Deno.pid}_${traces++}`;
  const ofType = (type: number, rules: Expression[][]): Expression[][] =>
    rules.map((rule) => [...matchFrameType(type), ...rule]);
  const arp = flows.flatMap(selectArp);
  const packets = ([4, 6] as const).map((family) =>
    [
      family,
      flows.filter(({ source }) => source.family === family)
        .flatMap(selectPackets),
    ] as const
  ).filter(([, rules]) => rules.length > 0);
  const frames = [
    ...packets.flatMap(([family, rules]) => ofType(FRAME_TYPES[family], rules)),
    ...ofType(FRAME_TYPES.arp, arp),
  ];
  const first = (...hooks: Hook[]): [Hook, number][] =>
    hooks.map((hook) => [hook, FIRST]);
  const inside: [Hook, number][] = first(
    "prerouting",
    "input",
    "forward",
    "output",
    "postrouting",
  );
  return [
    ...packets.map(([family, rules]) =>
      fill({ family: family === 4 ? "ip" : "ip6", name }, rules, [
        ...inside,
        ["prerouting", AFTER_NAT],
      ])
    ),
    fill({ family: "bridge", name }, frames, inside),
    ...arp.length === 0
      ? []
      : [fill({ family: "arp", name }, arp, first("input", "output"))],
    ...links.map((device) =>
      fill(
        { family: "netdev", name },
        frames,
        first("ingress"),
        device,
      )
    ),
  ];
}

function fill(
  table: Table,
  rules: readonly Expression[][],
  hooks: readonly (readonly [Hook, number])[],
  device?: string,
): Selecting {
  const flow = device === undefined ? FLOW : `${FLOW}-${device}`;
  const changes = [
    addOwnTable(table),
    addChain(table, flow),
    ...rules.map((rule) =>
      appendRule(table, { chain: flow, expressions: [...rule, ...trace()] })
    ),
    ...hooks.flatMap(([hook, priority]) => {
      const chain = `${hook}${priority}-${device ?? ""}`;
      const base = { type: "filter", hook, priority, device } as const;
      return [
        addChain(table, chain, base),
        appendRule(table, { chain, expressions: [jumpTo(flow)] }),
      ];
    }),
  ];
  return { table, chain: flow, changes };
}

/** Selects the packets of a flow, the answers, and neighbour solicitations. */
function selectPackets({ protocol, source, id }: Flow): Expression[][] {
  const { family } = source;
  const isEcho = isIcmp(protocol);
  const address = new Uint8Array(source.toBytes());
  const at = ADDRESS_OFFSETS[family];
  const select = (
    field: "source" | "destination",
    offset: number,
    bytes: Bytes,
    of = protocol,
  ): Expression[] => [
    ...matchBytes("network", at[field], address),
    ...matchProtocol(of),
    ...matchBytes("transport", offset, bytes),
  ];
  const number = u16be.encode(id);
  return [
    select("source", isEcho ? ECHO_ID : SOURCE_PORT, number),
    select("destination", isEcho ? ECHO_ID : DESTINATION_PORT, number),
    ...family === 4 ? [] : [
      ["source", SOLICITATION] as const,
      ["destination", ADVERTISEMENT] as const,
    ].map(([field, type]) =>
      select(field, 0, new Uint8Array([type]), IpProtocol.icmp6)
    ),
  ];
}

function selectArp({ source }: Flow): Expression[][] {
  if (source.family === 6) return [];
  const address = new Uint8Array(source.toBytes());
  return [ARP_SENDER, ARP_TARGET].map((offset) =>
    matchBytes("network", offset, address)
  );
}
