/**
 * Sends probes, and explains why some of them were lost.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { listRouters, listUplinks } from "../node/routers.ts";
import { readSysctlOf } from "../node/sysctls.ts";
import type { Cause } from "./cause.ts";
import { FAR, type ProbeEndpoint } from "./endpoint.ts";
import { explainLoss, explainPolicy, explainUntranslated } from "./explain.ts";
import { explainEnd, findEnded } from "./reasons.ts";
import { explainRedirect } from "./explain_link.ts";
import { explainPath } from "./explain_path.ts";
import {
  explainNextHop,
  explainNone,
  explainOwn,
  explainStop,
  type Hop,
} from "./explain_route.ts";
import { explainTranslation } from "./explain_translation.ts";
import { type Answer, describeProbe, send, UNSERVED } from "./packet.ts";
import { originOfNode, type Wanted } from "./targets.ts";
import { findDrop, type Place, type Trace, traceAll } from "./trace.ts";
import { describeLink, findLastLink } from "./traced_link.ts";

/** A probe, its answer and, if it was lost, the cause. */
export interface Probed {
  readonly wanted: Wanted;
  readonly answer: Answer;
  /** Undefined if it was not lost, or if nothing on this node explains it. */
  readonly cause?: Cause | undefined;
}

/** How long to wait for the answer to a probe, and to a traced packet, in ms. */
const WAIT_MS = 250, TRACE_WAIT_MS = 300, ONE_WAY_MS = 100;
/** How many sockets are open at the same time. */
const MOST_SOCKETS = 200;
/** How many lost paths are traced. */
const MOST_TRACED = 12;
/** How many host ports are traced. */
const MOST_PORTS = 32;
/** How many paths of a network are traced; further paths get the same cause. */
const MOST_ALIKE = 2;

/** Sends probes, and explains which were lost. */
export async function probeAll(
  node: NodeReader,
  all: readonly Wanted[],
): Promise<Probed[]> {
  const answers = new Map<Wanted, Answer>();
  await resolveRouters(node, all);
  for (let at = 0; at < all.length; at += MOST_SOCKETS) {
    node.signal.throwIfAborted();
    await Promise.all(
      all.slice(at, at + MOST_SOCKETS).map(async (wanted) => {
        answers.set(wanted, await send(wanted.probe, WAIT_MS));
      }),
    );
  }
  for (const [wanted, answer] of await findTaken(node, answers)) {
    answers.set(wanted, answer);
  }
  const answerOf = (wanted: Wanted): Answer => {
    const answer = answers.get(wanted);
    if (answer === undefined) throw new Error("Cannot find an answer");
    return answer;
  };
  const causes = await explainAll(node, all, answerOf);
  return all.map((wanted) => ({
    wanted,
    answer: answerOf(wanted),
    cause: causes.get(wanted),
  }));
}

/**
 * Lets the node resolve the MACs of its routers first: a new link does not yet resolve
 * them for forwarded packets.
 */
async function resolveRouters(
  node: NodeReader,
  all: readonly Wanted[],
): Promise<void> {
  const routers = new Map(
    all.filter(({ kind }) => kind === "outside")
      .map(({ probe: { destination } }) => [`${destination}`, destination]),
  );
  await Promise.all(
    [...routers.values()].map(async (destination) => {
      const from = originOfNode(node, destination);
      if (from === undefined) return;
      await send(
        { from, to: "its router", destination, protocol: "ping" },
        WAIT_MS,
      );
    }),
  );
}

/** Reports whether a probe succeeded: a port that the user named must accept it. */
export function arrives({ wanted: { kind }, answer }: Probed): boolean {
  const { isReached, error } = answer;
  return isReached && (kind !== "named" || error === undefined);
}

/** Reports whether a port that the user named refused the connection. */
function isRefused({ kind, probe }: Wanted, { error }: Answer): boolean {
  return kind === "named" && probe.port !== undefined && error !== undefined;
}

/** Reports whether a probe needs no explanation: a sender that learns the MTU uses it. */
function isWell({ isReached, icmp }: Answer): boolean {
  return isReached || icmp?.mtu !== undefined;
}

/**
 * Finds host ports that a different program or container answers, and host ports that
 * a rule closes at the uplink.
 */
async function findTaken(
  node: NodeReader,
  answers: ReadonlyMap<Wanted, Answer>,
): Promise<Map<Wanted, Answer>> {
  const asked = [...answers].filter(([{ kind }, { isReached }]) =>
    kind === "host port" && isReached
  ).slice(0, MOST_PORTS);
  const traced = asked.length === 0
    ? []
    : await traceLost(node, asked.map(([wanted]) => wanted));
  return new Map(asked.flatMap(([wanted, answer], at) => {
    const { subject, probe: { destination } } = wanted;
    const trace = traced[at];
    if (trace === undefined) return [];
    const { connection, packets: [first] } = trace;
    const lost = { ...answer, isReached: false };
    if (findDrop(trace) ?? findEnded(trace)) {
      const cause = explainLoss(trace, node, subject.start.address.masked());
      if (cause?.isIntended) return [];
      if (cause !== undefined) return [[wanted, lost] as const];
    }
    // A connection that was refused is no longer tracked.
    const isThere = connection !== undefined
      ? connection.reply.source.equals(subject.start.address.ip)
      : first === undefined ||
        first.links.some(({ name }) => subject.hostLinks.includes(name));
    if (isThere) return [];
    const by = connection?.reply.source ?? destination;
    const owner = by.equals(destination) ? "the node itself" : `${by}`;
    return [[wanted, { ...lost, error: `${owner} answers` }] as const];
  }));
}

/** Traces lost probes, all at the same time. */
function traceLost(node: NodeReader, all: readonly Wanted[]): Promise<Trace[]> {
  return traceAll(
    all.map((wanted) => {
      const { kind, subject, tracedFrom } = wanted;
      const { from } = wanted.probe;
      const probe = { ...wanted.probe, from: tracedFrom ?? from };
      // A packet with a container's own address is not answered without a route back.
      const isOneWay = kind === "outside" && !subject.isMasqueraded ||
        tracedFrom !== undefined;
      const waitMs = isOneWay ? ONE_WAY_MS : TRACE_WAIT_MS;
      return { probe, places: listPlaces(node, wanted), waitMs };
    }),
    node.env["PATH"],
  );
}

/** Explains lost probes. Of probes that are lost in the same way, some are traced. */
async function explainAll(
  node: NodeReader,
  all: readonly Wanted[],
  answerOf: (wanted: Wanted) => Answer,
): Promise<Map<Wanted, Cause>> {
  const lost = all.filter((wanted) =>
    !isWell(answerOf(wanted)) || isRefused(wanted, answerOf(wanted))
  );
  const pathOf = ({ kind, subject, probe }: Wanted): string =>
    [kind, subject.origin.name, probe.from.name, probe.destination].join();
  const shapeOf = ({ kind, subject, probe }: Wanted): string =>
    [
      kind,
      subject.network || subject.origin.name,
      probe.destination.family,
      describeProbe(probe),
    ].join();
  // All probes of a path have the same cause, and so do paths that lose the same probes.
  const paths = [...Map.groupBy(lost, pathOf).values()];
  const alike = [
    ...Map.groupBy(paths, (path) => path.map(shapeOf).join()).values(),
  ];
  const traced = alike.flatMap((some) => some.slice(0, MOST_ALIKE))
    .slice(0, MOST_TRACED);
  const wanted = traced.flat();
  const traces = wanted.length === 0 ? [] : await traceLost(node, wanted);
  const causes = new Map<Wanted, Cause>();
  for (const some of alike) {
    let known: Cause | undefined;
    for (const path of some) {
      let cause = traced.includes(path) ? undefined : known;
      for (const one of traced.includes(path) ? path : []) {
        const trace = traces[wanted.indexOf(one)];
        if (trace === undefined || isProblem(cause)) continue;
        cause = await findSureCause(node, one, trace, answerOf(one)) ?? cause;
      }
      if (!isProblem(known)) known = cause ?? known;
      if (cause === undefined) continue;
      for (const one of path) causes.set(one, cause);
    }
  }
  return causes;
}

/** Reports whether a cause is known, and is not a rule that drops on purpose. */
export function isProblem(cause: Cause | undefined): cause is Cause {
  return cause !== undefined && !cause.isIntended;
}

/** How often a probe is sent again to confirm where its packet ended, at most. */
const SECOND_LOOKS = 2;

/**
 * Explains a lost probe. If only the place where a packet ended is known, or only its
 * length, the probe is sent again: the packet might belong to another program, and the
 * answer might be late.
 */
async function findSureCause(
  node: NodeReader,
  wanted: Wanted,
  traced: Trace,
  answer: Answer,
): Promise<Cause | undefined> {
  const cause = await findCause(node, wanted, traced, answer);
  if (cause?.check !== "packet-ends" || cause.isIntended) return cause;
  // On a busy machine, a trace might miss where the packet ended.
  for (let attempt = 0; attempt < SECOND_LOOKS; attempt++) {
    const [again] = await traceLost(node, [wanted]);
    if (again === undefined) return undefined;
    const isLate = isWell(again.answer) && !isRefused(wanted, again.answer);
    if (isLate) return undefined;
    const confirmed = await findCause(node, wanted, again, again.answer);
    if (confirmed !== undefined) return confirmed;
  }
  return undefined;
}

/** Explains a lost probe. */
async function findCause(
  node: NodeReader,
  wanted: Wanted,
  traced: Trace,
  answer: Answer,
): Promise<Cause | undefined> {
  const { subject, peer, kind } = wanted;
  // The answer was late, or a single packet was dropped.
  if (isWell(traced.answer) && kind !== "host port") {
    return isRefused(wanted, traced.answer)
      ? explainTranslation(traced, node) ??
        explainStop(
          wanted.probe,
          listHops(node, wanted),
          isToContainer(wanted),
        )
      : undefined;
  }
  const ends = [subject, peer];
  const isOut = ["outside", "name server", "named"].includes(kind);
  const explainPaths = async (): Promise<Cause | undefined> => {
    for (const end of ends) {
      const cause = end && await explainPath(node, end, isOut);
      if (cause !== undefined) return cause;
    }
    return undefined;
  };
  // A wrong route is the cause if reverse path filtering drops a packet.
  const { reason = "" } = findEnded(traced) ?? {};
  if (/^(IP_RPFILTER|IP_INADDRERRORS)$/.test(reason)) {
    const cause = await explainPaths();
    if (cause !== undefined) return cause;
  }
  const reported = explainLoss(traced, node, subject.start.address.masked());
  if (reported !== undefined) return reported;
  const { probe } = wanted;
  const hops = listHops(node, wanted);
  const containers = ends.flatMap((end) => end?.hostLinks ?? []);
  return explainStop(probe, hops, isToContainer(wanted)) ??
    explainRedirect(node, containers) ??
    explainTranslation(traced, node) ??
    explainNextHop(probe, hops, containers) ??
    explainTtl(answer, traced, subject) ?? await explainPaths() ??
    (kind === "named" ? explainNone(probe, hops) : undefined) ??
    await explainLength(node, wanted) ?? explainEnd(traced) ??
    explainPolicy(traced, node) ?? explainRest(node, wanted, traced, answer);
}

/**
 * Explains that no probe to the outside was sent, because the node has no router.
 *
 * @returns Undefined if the container's packets are not meant to leave the node
 */
export async function explainUnsent(
  node: NodeReader,
  subject: ProbeEndpoint,
): Promise<Probed | undefined> {
  const { origin: from, start, isRouted, hasDefault } = subject;
  const { family } = start.address;
  if (!isRouted || !hasDefault || listRouters(node, family).length > 0) {
    return undefined;
  }
  const cause = await explainPath(node, subject, true);
  if (cause === undefined) return undefined;
  const destination = FAR[family];
  const probe = {
    from,
    to: "the outside",
    destination,
    protocol: "ping",
  } as const;
  return {
    wanted: { kind: "outside", subject, probe },
    answer: {
      isReached: false,
      error: "not sent",
      icmp: undefined,
      milliseconds: 0,
    },
    cause,
  };
}

/** A lower TTL than this ends packets on usual paths. */
const FEW_HOPS = 16;

/** Explains that the container's own TTL is too low. Routers report it at a limited rate. */
function explainTtl(
  { icmp }: Answer,
  traced: Trace,
  { start, origin }: ProbeEndpoint,
): Cause | undefined {
  const isReported = icmp?.isExpired || traced.answer.icmp?.isExpired ||
    findEnded(traced)?.location === "ip_forward";
  if (!isReported) return undefined;
  using sandbox = Rtnl.open(start.netns);
  const ttl = readSysctlOf(sandbox, "net/ipv4/ip_default_ttl");
  if (start.address.family === 6 || !(Number(ttl) < FEW_HOPS)) return undefined;
  return {
    check: "packet-ends",
    text:
      `net.ipv4.ip_default_ttl of ${origin.name} is ${ttl}: its packets expire ` +
      "after that many hops",
    command: shell`nsenter --net=${start.netns} ` +
      "sysctl -w net.ipv4.ip_default_ttl=64",
    advice: "and in the program that set it",
  };
}

/** Usual MTUs of paths with tunnels, down to the minimum of IPv6. */
const LENGTHS: readonly number[] = [
  1492,
  1480,
  1476,
  1460,
  1450,
  1440,
  1420,
  1400,
  1380,
  1360,
  1300,
  1280,
];

/** Explains that only long packets are lost: sends packets of several lengths. */
async function explainLength(
  node: NodeReader,
  { probe, kind, subject, peer }: Wanted,
): Promise<Cause | undefined> {
  const { length, destination, from } = probe;
  if (length === undefined) return undefined;
  const shorter = LENGTHS.filter((one) => one < length);
  const answers = await Promise.all(
    shorter.map((length) => send({ ...probe, length }, WAIT_MS)),
  );
  const most = shorter.find((_, at) => answers[at]?.isReached);
  if (most === undefined) return undefined;
  const links = [subject, ...peer === undefined ? [] : [peer]]
    .flatMap(({ hostLinks }) => hostLinks)
    .flatMap((name) => node.host.link.find(name) ?? []);
  const narrow = links.find(({ mtu }) => mtu < length);
  const uplinks = listUplinks(node);
  const text = `packets of ${length} bytes to ${destination} are lost, but ` +
    "shorter ones arrive";
  if (narrow !== undefined) {
    const look = shell`ip link show ${narrow.name}`;
    return {
      check: "packet-ends",
      text: `${text}: the MTU of "${narrow.name}" is ${narrow.mtu}`,
      // What the node sends must pass the network behind its uplink.
      ...uplinks.some(({ index }) => index === narrow.index)
        ? { advice: `set "mtu" of the network to ${narrow.mtu}` }
        : { command: shell`ip link set ${narrow.name} mtu ${length}` },
      look,
    };
  }
  const isBeyond = kind === "outside" || kind === "name server" ||
    kind === "named" && peer === undefined;
  return {
    check: "packet-ends",
    text: `${text}: the path from ${from.name} has an MTU of about ${most}`,
    // With a smaller MTU, an uplink might drop packets that other hosts send to the node.
    advice: isBeyond && uplinks.length > 0
      ? `set MTU ${most} for the node's ` +
        (kind === "outside" ? "default route" : `route to ${destination}`) +
        ` (ip route change … mtu lock ${most}), so that senders learn it; or ` +
        "find the link with the smaller MTU"
      : "find the link with the smaller MTU",
    look: `tracepath -n ${destination}`,
  };
}

/** Explains a loss with the host that refused the packet, or with how it left the node. */
function explainRest(
  node: NodeReader,
  wanted: Wanted,
  traced: Trace,
  { error }: Answer,
): Cause | undefined {
  const { probe, kind, subject } = wanted;
  const { icmp } = traced.answer;
  // The destination itself reports that nothing listens on the port.
  if (icmp?.sender.equals(probe.destination) && kind !== "name server") {
    return undefined;
  }
  const look = `ip route get ${probe.destination}`;
  if (icmp !== undefined && icmp.text !== "port unreachable") {
    return {
      check: "packet-ends",
      text:
        `${icmp.sender} refuses packets to ${probe.destination}: ${icmp.text}`,
      isSymptom: true,
      advice: `check the routes and the firewall of ${icmp.sender}`,
      look,
    };
  }
  const isSilent = error === undefined || error === UNSERVED ||
    icmp !== undefined;
  if (kind === "name server" && isSilent) {
    const untranslated = error === undefined && subject.isMasqueraded
      ? explainUntranslated(traced, node)
      : undefined;
    if (untranslated !== undefined) return untranslated;
    if (error === undefined && probe.protocol !== "dns") return undefined;
    const reason = error === undefined ? "" : `${error}: `;
    return {
      check: "packet-ends",
      // Without the container's name, so that all containers share a finding.
      text: `the name server ${probe.destination} does not answer`,
      advice: `${reason}check the name server, and its route back to the ` +
        "containers",
      look: `dig +time=1 @${probe.destination} . NS`,
      isSymptom: true,
    };
  }
  if (error !== undefined && kind !== "peer") {
    return {
      check: "packet-ends",
      text: `${probe.from.name} does not reach ${probe.to} ` +
        `${probe.destination} (${describeProbe(probe)}): ${error}`,
      isSymptom: true,
      advice: kind === "host port"
        ? "find the program or the rule that uses the port: restart the " +
          "container once it is free"
        : "check its routes and rules",
      look: kind === "host port"
        ? `ss -lnp 'sport = :${probe.port}'; nft list ruleset | grep ${probe.port}`
        : subject.start.netns === ""
        ? look
        : shell`nsenter --net=${subject.start.netns} ` + look,
    };
  }
  if (kind === "named") {
    return explainOwn(node.host, probe.destination, isToContainer(wanted)) ??
      explainUntranslated(traced, node) ?? explainDeparture(traced);
  }
  return kind === "outside" && subject.isMasqueraded
    ? explainUntranslated(traced, node)
    : undefined;
}

/** Reports whether the destination of a probe is an address of a container. */
function isToContainer({ probe, subject, peer }: Wanted): boolean {
  return [subject, peer].some((end) =>
    end?.start.address.ip.equals(probe.destination)
  );
}

/** Describes how a packet left the node, if nothing else is known about it. */
function explainDeparture(trace: Trace): Cause {
  const { packets: [first], connection, probe: { destination } } = trace;
  const last = first && findLastLink(trace, first);
  const by = last === undefined
    ? ""
    : ` ${last.isSent ? "leave over" : "arrive at"} ${describeLink(last)}`;
  const as = connection === undefined
    ? ""
    : ` as ${connection.reply.destination}`;
  return {
    check: "packet-ends",
    text: `packets to ${destination}${by}${as}, and no answer comes back`,
    advice: "nothing on this node stops them: check the other end, and its " +
      "route back",
    look: `ip route get ${destination}`,
  };
}

/** Lists the namespaces that the packets of a probe pass. */
function listPlaces(node: NodeReader, { subject, peer }: Wanted): Place[] {
  const links = [
    ...subject.hostLinks,
    ...peer?.hostLinks ?? [],
    ...listUplinks(node).map(({ name }) => name),
  ];
  return [
    { netns: node.host.netns, owner: undefined, links: [...new Set(links)] },
    ...[subject, peer].flatMap((end) =>
      end === undefined ? [] : [{
        netns: end.origin.netns,
        // Without the interface, which the name ends with.
        owner: end.origin.name.replace(/ \S+$/, ""),
        links: [],
      }]
    ),
  ];
}

/** Lists the namespaces that route a probe. */
function listHops(node: NodeReader, { probe, subject, peer }: Wanted): Hop[] {
  const { netns } = node.host;
  const { from, destination } = probe;
  if (from.netns.path === netns.path) {
    return [{ netns, container: undefined, input: "lo" }];
  }
  const sender = [subject, peer]
    .find((end) => end?.origin.netns.path === from.netns.path);
  if (sender === undefined) return [];
  const own = { netns: from.netns, container: from.name, input: "lo" };
  const { entry, hostEnd, start: { address } } = sender;
  // A bridge forwards between its ports without routes.
  const isBridged = entry !== hostEnd && address.contains(destination);
  return entry === undefined || isBridged
    ? [own]
    : [own, { netns, container: undefined, input: entry.name }];
}

/** Describes which end does not reach which, as the effect of a cause. */
export function describeLoss(wanted: Wanted): string {
  return `${wanted.probe.from.name} does not reach ${targetOf(wanted)}`;
}

/** Names the destination of a probe: `its gateway 10.1.0.1`. */
export function targetOf({ probe: { to, destination }, kind }: Wanted): string {
  return kind === "host port" ? to : `${to} ${destination}`;
}
