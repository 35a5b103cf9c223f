/**
 * Sends a lost probe again while the kernel reports where it ends: the rules that its
 * flow matches, the links that it passes, and the function that drops it.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { type Bytes, viewOf } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { Conntrack, type TrackedConnection } from "../../ffi/conntrack/mod.ts";
import { ADDRESS_OFFSETS } from "../../ffi/socket/ip_header.ts";
import {
  ARP_SENDER,
  ARP_TARGET,
  DESTINATION_PORT,
  ECHO_ID,
  type Flow,
  FlowTrace,
  isIcmp,
  SOURCE_PORT,
  type TraceStep,
} from "../../ffi/nftables/trace.ts";
import { VERDICTS } from "../../ffi/nftables/expression.ts";
import { PacketEvents, type PacketPath } from "../../ffi/packet_events.ts";
import { type CountedRule, countLegacyRules } from "./legacy_rules.ts";
import {
  type Answer,
  DISCARD_PORT,
  DNS_PORT,
  type Opened,
  type Probe,
  send,
} from "./packet.ts";

/** A namespace that the packets might pass. */
export interface Place {
  readonly netns: NetNs;
  /** The container to which the namespace belongs; undefined for the node's own. */
  readonly owner: string | undefined;
  /** Names of links in the namespace; the trace includes their netdev rules. */
  readonly links: readonly string[];
}

/** A decision of a rule, and the namespace of the rule. */
export interface PlacedStep extends TraceStep {
  /** Path of the namespace. */
  readonly netns: string;
}

/** The path of a traced probe. */
export interface Trace {
  readonly probe: Probe;
  /** The answer to the traced packet. */
  readonly answer: Answer;
  /** The namespaces that the packets might pass, the node's first. */
  readonly places: readonly Place[];
  /** The decisions of rules, in the order of each namespace. */
  readonly steps: readonly PlacedStep[];
  /** The probe's packets and the answers, in order; none without tracepoints. */
  readonly packets: readonly PacketPath[];
  /** The tracked connection; undefined if no namespace tracks the flow. */
  readonly connection: TrackedConnection | undefined;
  /** Rules of legacy iptables and ebtables that dropped packets during the trace. */
  readonly counted: readonly CountedRule[];
}

/** A probe to trace. */
export interface Traced {
  readonly probe: Probe;
  /** The namespaces that it might pass, the node's first. */
  readonly places: readonly Place[];
  readonly waitMs: number;
}

/** The recordings of the packets of several probes. */
interface Recorders {
  readonly rules: readonly (readonly [netns: string, FlowTrace])[];
  readonly events: PacketEvents | undefined;
}

/**
 * Sends a traced packet of each probe, all at the same time.
 *
 * @param path Directories of programs, as in `PATH`
 */
export async function traceAll(
  all: readonly Traced[],
  path: string | undefined,
): Promise<Trace[]> {
  using stack = new DisposableStack();
  const places = mergePlaces(all.flatMap(({ places }) => places));
  const hosts = places.map(({ netns }) => netns);
  const before = await countLegacyRules(hosts, path);
  const opened = new Map<Traced, Opened>();
  const { promise: ready, resolve: begin } = Promise.withResolvers<Recorders>();
  let open = all.length;
  // Recording starts when the last probe has opened a socket or has failed to.
  const arrive = (): void => {
    if (--open === 0) begin(record(stack, places, [...opened.values()]));
  };
  const connections = new Map<Traced, TrackedConnection>();
  const answers = await Promise.all(all.map(async (one, at) => {
    let recorders: Recorders | undefined;
    let isOpen = false;
    const answer = await send(one.probe, one.waitMs, {
      async onOpened(socket): Promise<void> {
        isOpen = true;
        opened.set(one, socket);
        arrive();
        recorders = await ready;
      },
      onSend: () => recorders?.events?.mark(`${at}`),
      // Until NAT is undone, the answers have a different destination.
      onSilence({ flow }): void {
        const found = findConnection(one.probe, flow, hosts);
        if (found === undefined) return;
        connections.set(one, found);
        const { source, destination, destinationPort } = found.reply;
        const id = destinationPort ?? flow.id;
        for (const [, trace] of recorders?.rules ?? []) {
          trace.traceAnswers(flow, { source, destination, id });
        }
      },
    });
    if (!isOpen) arrive();
    const socket = opened.get(one);
    const found = connections.get(one) ??
      (socket && findConnection(one.probe, socket.flow, hosts));
    if (found !== undefined) connections.set(one, found);
    return answer;
  }));
  const { rules, events } = await ready;
  const steps = rules.flatMap(([netns, trace]) =>
    trace.take().map((step) => ({ ...step, netns }))
  );
  const packets = events?.read() ?? [];
  const after = await countLegacyRules(hosts, path);
  const counted = listDropping(before, after);
  return all.map((one, at) => {
    const socket = opened.get(one);
    const connection = connections.get(one);
    return {
      probe: one.probe,
      answer: answers[at] as Answer,
      places: one.places,
      steps: socket === undefined
        ? []
        : selectSteps(steps, socket.flow, connection),
      packets: socket === undefined
        ? []
        : selectPackets(packets, `${at}`, one.probe, socket.length),
      connection,
      counted,
    };
  });
}

/** Merges the places of the same namespace. */
function mergePlaces(places: readonly Place[]): Place[] {
  return [...Map.groupBy(places, ({ netns }) => netns.path).values()]
    .flatMap((some) => {
      const [first] = some;
      const links = [...new Set(some.flatMap(({ links }) => links))];
      return first === undefined ? [] : [{ ...first, links }];
    });
}

/** Starts to record flows. */
function record(
  stack: DisposableStack,
  places: readonly Place[],
  opened: readonly Opened[],
): Recorders {
  const flows = opened.map(({ flow }) => flow);
  const rules = places.flatMap(({ netns, links }) => {
    // Without nf_tables, the kernel has no such rules.
    const trace = ifPossible(() => FlowTrace.open(netns, flows, links));
    return trace === undefined ? [] : [[netns.path, stack.use(trace)] as const];
  });
  const lengths = [...new Set(opened.map(({ length }) => length))];
  const events = PacketEvents.open({ lengths });
  if (events !== undefined) stack.use(events);
  return { rules, events };
}

/**
 * Selects the decisions about a flow and its answers. Only the first decision in a base chain
 * contains the headers of the packet.
 */
function selectSteps(
  steps: readonly PlacedStep[],
  flow: Flow,
  connection: TrackedConnection | undefined,
): PlacedStep[] {
  const own = new Map<string, boolean>();
  return steps.filter((step) => {
    const key = `${step.netns} ${step.packet}`;
    if (step.network !== undefined) {
      own.set(key, isOfFlow(step, flow, connection));
    }
    return own.get(key) === true;
  });
}

/** Reports whether headers belong to a flow, in either direction, or to its ARP. */
function isOfFlow(
  { network = new Uint8Array(0), transport, table }: PlacedStep,
  { protocol, source, id }: Flow,
  connection: TrackedConnection | undefined,
): boolean {
  if (
    !hasAddress(network, source) &&
    !(connection && hasAddress(network, connection.reply.destination))
  ) return false;
  const isArp = protocol === 0;
  if (table.family === "arp" || isArp || transport === undefined) return true;
  const offsets = isIcmp(protocol)
    ? [ECHO_ID]
    : [SOURCE_PORT, DESTINATION_PORT];
  const numbers = offsets.filter((at) => transport.length >= at + 2)
    .map((at) => viewOf(transport).getUint16(at));
  return numbers.includes(id) ||
    numbers.includes(connection?.reply.destinationPort ?? -1);
}

/** Reports whether an IP header or an ARP packet contains an address at either end. */
function hasAddress(network: Bytes, ip: Ip): boolean {
  const { source, destination } = ADDRESS_OFFSETS[ip.family];
  const isIp = network[0] !== undefined && network[0] >> 4 !== 0;
  const offsets = isIp ? [source, destination] : [ARP_SENDER, ARP_TARGET];
  const hex = new Uint8Array(ip.toBytes()).toHex();
  return offsets.some((at) => network.toHex().startsWith(hex, 2 * at));
}

/**
 * Selects the packets of a probe: the packets that were sent after its mark, and the
 * answers to a ping, which have its length and arrive on a link that it passed.
 */
function selectPackets(
  packets: readonly PacketPath[],
  mark: string,
  { protocol, length }: Probe,
  wanted: number,
): PacketPath[] {
  const isSent = (one: PacketPath): boolean =>
    one.mark === mark && one.links[0]?.isSent === true &&
    (one.length === wanted || one.type === ARP);
  const passed = new Set(
    packets.filter(isSent).flatMap(({ links }) => links)
      .map(({ name }) => name),
  );
  return packets.filter((packet) =>
    isSent(packet) ||
    // Many other packets are as long as the MTU.
    protocol === "ping" && length === undefined && packet.length === wanted &&
      !isSentByOther(packet, mark) && passed.has(packet.links[0]?.name ?? "")
  );
}

/** Reports whether a packet was sent by a different probe of the same length. */
function isSentByOther(
  { mark, links: [first] }: PacketPath,
  own: string,
): boolean {
  return first?.isSent === true && mark !== undefined && mark !== own;
}

/** Finds the flow in the first namespace that tracks it. */
function findConnection(
  { destination, protocol, port }: Probe,
  flow: Flow,
  places: readonly NetNs[],
): TrackedConnection | undefined {
  const packet = {
    source: flow.source,
    destination,
    sourcePort: flow.id,
    destinationPort: protocol === "ping"
      ? undefined
      : port ?? (protocol === "dns" ? DNS_PORT : DISCARD_PORT),
  };
  for (const { path } of places) {
    const connection = ifPossible(() => {
      using conntrack = Conntrack.open(path);
      return conntrack.find(flow.protocol, packet);
    });
    if (connection !== undefined) return connection;
  }
  return undefined;
}

/** Source: include/uapi/linux/if_ether.h `ETH_P_ARP`. */
const ARP = 0x0806;

/** Lists the rules that dropped packets between two counts. */
function listDropping(
  before: readonly CountedRule[],
  after: readonly CountedRule[],
): CountedRule[] {
  const counts = new Map(before.map((one) => [keyOf(one), one.packets]));
  return after.filter((one) => one.packets > (counts.get(keyOf(one)) ?? 0));
}

function keyOf({ netns, program, table, text }: CountedRule): string {
  return `${netns} ${program} ${table} ${text}`;
}

/** Returns the decision that dropped a packet; undefined if no rule did. */
export function findDrop({ steps }: Trace): PlacedStep | undefined {
  return steps.find(({ verdict }) => verdict === VERDICTS.drop);
}
