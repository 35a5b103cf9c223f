/**
 * Sends probes, and finds the causes for which some were lost.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Node } from "../doctor/node.ts";
import { listUplinks } from "../doctor/subnets.ts";
import { readSysctlOf } from "../doctor/sysctls.ts";
import { CONTAINER_STEPS } from "../doctor/way/container.ts";
import { HOST_STEPS } from "../doctor/way/host.ts";
import { FAR, type Step } from "../doctor/way/trip.ts";
import { listEnds, type Made, STEPS } from "../doctor/way/walk.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Cause } from "./cause.ts";
import { explain, explainUntranslated, INTENDED } from "./explain.ts";
import { explainEnd, findEnded } from "./reasons.ts";
import { explainRedirect } from "./explain_link.ts";
import {
  explainNextHop,
  explainNone,
  explainStop,
  type Hop,
} from "./explain_route.ts";
import { explainTranslation } from "./explain_translation.ts";
import { type Answer, describeProbe, send } from "./packet.ts";
import {
  type Kind,
  listRouters,
  originOfNode,
  type Wanted,
} from "./targets.ts";
import { type Place, type Trace, traceAll } from "./trace.ts";

/** A probe, its answer and, if it was lost, the cause. */
export interface Probed {
  readonly wanted: Wanted;
  readonly answer: Answer;
  /** Undefined if it was not lost, or if nothing on this node explains it. */
  readonly cause?: Cause | undefined;
}

/** How long to wait for an answer, and for that of a traced packet, in ms. */
const WAIT_MS = 250, TRACE_WAIT_MS = 300, ONE_WAY_MS = 100;
/** How many sockets are open together. */
const MOST_SOCKETS = 200;
/** How many losses of different kinds are traced. */
const MOST_TRACED = 12;
/** How many ports of the node are looked at closely. */
const MOST_PORTS = 32;
/** How many containers of a network are asked before the others are taken for alike. */
const MOST_ALIKE = 2;

/** Sends probes, and explains which were lost. */
export async function probeAll(
  node: Node,
  all: readonly Wanted[],
): Promise<Probed[]> {
  const answers = new Map<Wanted, Answer>();
  await greetRouters(node, all);
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
 * Has the node resolve the MACs of its routers first. A link that is new does not yet
 * do that for what it forwards.
 */
async function greetRouters(
  node: Node,
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

/** Reports whether a probe did what was wanted: a port that somebody named must accept. */
export function arrives({ wanted: { kind }, answer }: Probed): boolean {
  const { isReached, error } = answer;
  return isReached && (kind !== "named" || error === undefined);
}

/** A port that somebody named must not be refused, by the wrong one above all. */
function isRefused({ kind, probe }: Wanted, { error }: Answer): boolean {
  return kind === "named" && probe.port !== undefined && error !== undefined;
}

/** A sender that is told the largest packet sends smaller ones. */
function isWell({ isReached, icmp }: Answer): boolean {
  return isReached || icmp?.mtu !== undefined;
}

/**
 * Finds ports of the node that are answered by others than their container: by the
 * node itself, or by a container to which another rule leads.
 */
async function findTaken(
  node: Node,
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
    const { connection, packets = [] } = traced[at] ?? {};
    const [first] = packets;
    // A connection that is refused is not tracked any more.
    const isThere = connection !== undefined
      ? connection.reply.source.equals(subject.start.address.ip)
      : first === undefined ||
        first.links.some(({ name }) => subject.hostLinks.includes(name));
    if (isThere) return [];
    const by = connection?.reply.source ?? destination;
    const owner = by.equals(destination) ? "the node itself" : `${by}`;
    const error = `${owner} answers`;
    return [[wanted, { ...answer, isReached: false, error }] as const];
  }));
}

/** Traces lost probes, all at the same time. */
function traceLost(node: Node, all: readonly Wanted[]): Promise<Trace[]> {
  return traceAll(
    all.map((wanted) => {
      const { kind, subject, probe } = wanted;
      // What leaves with an address of its own is not answered without a route back.
      const isOneWay = kind === "outside" && !subject.isMasqueraded;
      const waitMs = isOneWay ? ONE_WAY_MS : TRACE_WAIT_MS;
      return { probe, places: listPlaces(node, wanted), waitMs };
    }),
    node.env["PATH"],
  );
}

/** Lost probes that have one cause, as far as can be told before a trace. */
interface Group {
  readonly network: string;
  readonly lost: readonly Wanted[];
}

async function explainAll(
  node: Node,
  all: readonly Wanted[],
  answerOf: (wanted: Wanted) => Answer,
): Promise<Map<Wanted, Cause>> {
  const causes = new Map<Wanted, Cause>();
  const lost = all.filter((wanted) =>
    !isWell(answerOf(wanted)) || isRefused(wanted, answerOf(wanted))
  );
  const groups = [
    ...Map.groupBy(
      lost,
      ({ kind, subject, probe }) =>
        [kind, subject.origin.name, probe.from.name, probe.destination].join(),
    ),
  ].map(([, some]): Group => ({
    network: [
      some[0]?.kind,
      some[0]?.subject.network || some[0]?.subject.origin.name,
      some[0]?.probe.destination.family,
      ...some.map(({ probe }) => describeProbe(probe)),
    ].join(),
    lost: some,
  }));
  const alike = [...Map.groupBy(groups, ({ network }) => network).values()];
  const first = alike.flatMap((some) => some.slice(0, MOST_ALIKE))
    .slice(0, MOST_TRACED);
  if (first.length === 0) return causes;
  const traced = new Map<Wanted, Trace>();
  const wanted = first.flatMap(({ lost }) => lost);
  for (const [at, trace] of (await traceLost(node, wanted)).entries()) {
    const one = wanted[at];
    if (one !== undefined) traced.set(one, trace);
  }
  const found = new Map<Group, Cause | undefined>();
  for (const group of first) {
    for (const one of group.lost) {
      const trace = traced.get(one);
      const cause = trace &&
        await findSureCause(node, one, trace, answerOf(one));
      found.set(group, cause);
      if (cause !== undefined) break;
    }
  }
  for (const some of alike) {
    const known = some.map((group) => found.get(group)).find(Boolean);
    for (const group of some) {
      const cause = found.has(group) ? found.get(group) : known;
      if (cause === undefined) continue;
      for (const wanted of group.lost) causes.set(wanted, cause);
    }
  }
  return causes;
}

/**
 * Finds the cause for which a probe is lost. If all that is known is where a packet
 * ended, or how long it was, the probe is sent again: the packet may be another
 * program's, and the answer late.
 */
async function findSureCause(
  node: Node,
  wanted: Wanted,
  traced: Trace,
  answer: Answer,
): Promise<Cause | undefined> {
  const cause = await findCause(node, wanted, traced, answer);
  if (cause?.check !== "packet-ends") return cause;
  const [again] = await traceLost(node, [wanted]);
  if (again === undefined || isWell(again.answer)) return undefined;
  return await findCause(node, wanted, again, again.answer);
}

/** Finds the cause for which a probe is lost. */
async function findCause(
  node: Node,
  wanted: Wanted,
  traced: Trace,
  answer: Answer,
): Promise<Cause | undefined> {
  const { subject, peer, kind } = wanted;
  // It was late, or another one was dropped by chance.
  if (isWell(traced.answer) && kind !== "host port") {
    return isRefused(wanted, traced.answer)
      ? explainTranslation(traced, node) ??
        explainStop(wanted.probe, listHops(node, wanted))
      : undefined;
  }
  const ends = [subject, peer];
  const steps = answer.error?.includes("EINVAL") ? STEPS : stepsFor(kind);
  const findMade = async (): Promise<Cause | undefined> => {
    for (const end of ends) {
      if (end === undefined) continue;
      const [made] = await listEnds(node, end.start, steps).catch(() => []);
      if (made !== undefined) return causeOf(made, end);
    }
    return undefined;
  };
  // A wrong route is the reason for what reverse path filtering drops, and a burst
  // for what a queue does.
  const { reason = "" } = findEnded(traced) ?? {};
  if (/^(IP_RPFILTER|IP_INADDRERRORS|QDISC_\w+)$/.test(reason)) {
    const cause = await findMade();
    if (cause !== undefined) return cause;
  }
  for (const end of ends) {
    if (end === undefined) continue;
    const subnet = end.start.address.masked();
    const cause = explain(traced, { node, subnet });
    if (cause === INTENDED) return undefined;
    if (cause !== undefined) return cause;
  }
  const hops = listHops(node, wanted);
  const containers = ends.flatMap((end) => end?.hostLinks ?? []);
  const uplinks = listUplinks(node).map(({ name }) => name);
  return explainStop(wanted.probe, hops) ??
    explainRedirect(node, containers) ?? explainTranslation(traced, node) ??
    explainNextHop(wanted.probe, hops, { containers, uplinks }) ??
    explainTtl(traced, subject) ?? await findMade() ??
    (kind === "named" ? explainNone(wanted.probe, hops) : undefined) ??
    await explainLength(node, wanted) ?? explainEnd(traced) ??
    explainRest(node, wanted, traced, answer);
}

/**
 * Explains why nothing is sent to the outside for a container: the node has no router.
 *
 * @returns Undefined if its packets are not meant to leave the node
 */
export async function explainUnsent(
  node: Node,
  subject: Endpoint,
): Promise<Probed | undefined> {
  const { origin: from, start, isRouted, hasDefault } = subject;
  const { family } = start.address;
  if (!isRouted || !hasDefault || listRouters(node, family).length > 0) {
    return undefined;
  }
  const [made] = await listEnds(node, start).catch(() => []);
  if (made === undefined) return undefined;
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
    cause: causeOf(made, subject),
  };
}

/** Fewer hops than this do not lead far. */
const FEW_HOPS = 16;

/** Explains that a container's packets may make too few hops. */
function explainTtl(
  { answer: { icmp } }: Trace,
  { start, origin }: Endpoint,
): Cause | undefined {
  if (!icmp?.text.startsWith("time exceeded")) return undefined;
  using sandbox = Rtnl.open(start.netns);
  const ttl = readSysctlOf(sandbox, "net/ipv4/ip_default_ttl");
  if (start.address.family === 6 || !(Number(ttl) < FEW_HOPS)) return undefined;
  return {
    check: "packet-ends",
    text:
      `net.ipv4.ip_default_ttl of ${origin.name} is ${ttl}: its packets end ` +
      "after so many hops",
    command: shell`nsenter --net=${start.netns} ` +
      "sysctl -w net.ipv4.ip_default_ttl=64",
    advice: "and in the program that set it",
  };
}

/** Usual lengths of packets on paths with tunnels, and the least of IPv6. */
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

/** Explains that long packets alone are lost, by trying which ones arrive. */
async function explainLength(
  node: Node,
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
  const text = `packets of ${length} bytes to ${destination} are lost, and ` +
    "shorter ones arrive";
  if (narrow !== undefined) {
    return {
      check: "packet-ends",
      text: `${text}: the MTU of "${narrow.name}" is ${narrow.mtu}`,
      command: shell`ip link set ${narrow.name} mtu ${length}`,
      look: shell`ip link show ${narrow.name}`,
    };
  }
  const [uplink] = kind === "outside" || kind === "name server" ||
      kind === "named" && peer === undefined
    ? listUplinks(node)
    : [];
  return {
    check: "packet-ends",
    text: `${text}: the path from ${from.name} has an MTU of about ${most}`,
    command: uplink && shell`ip link set ${uplink.name} mtu ${most}`,
    advice: "so that senders are told; or find the link that is narrower",
    look: `tracepath -n ${destination}`,
  };
}

/** Explains by what is left: who refused it, or how it left the node. */
function explainRest(
  node: Node,
  { probe, kind, subject }: Wanted,
  traced: Trace,
  { error }: Answer,
): Cause | undefined {
  const { icmp } = traced.answer;
  // The other end itself says that nothing listens there.
  if (icmp?.sender.equals(probe.destination) && kind !== "name server") {
    return undefined;
  }
  const look = `ip route get ${probe.destination}`;
  if (icmp !== undefined && icmp.text !== "port unreachable") {
    return {
      check: "packet-ends",
      text:
        `${icmp.sender} refuses packets to ${probe.destination}: ${icmp.text}`,
      isVague: true,
      advice: `look at ${icmp.sender}: its routes and its firewall`,
      look,
    };
  }
  if (error !== undefined && kind !== "peer") {
    return {
      check: "packet-ends",
      text: `${probe.from.name} does not reach ${probe.to} ` +
        `${probe.destination} (${describeProbe(probe)}): ${error}`,
      isVague: true,
      advice: kind === "host port"
        ? "find the program or the rule that has the port: restart the " +
          "container once it is free"
        : "look at its routes and rules",
      look: kind === "host port"
        ? `ss -lnp 'sport = :${probe.port}'; nft list ruleset | grep ${probe.port}`
        : subject.start.netns === ""
        ? look
        : `nsenter --net=${subject.start.netns} ${look}`,
    };
  }
  if (kind === "named") {
    const own = explainOwn(node, traced);
    if (own !== undefined) return own;
    const untranslated = explainUntranslated(traced);
    return untranslated ?? explainDeparture(traced);
  }
  const isOut = kind === "outside" || kind === "name server";
  if (!isOut) return undefined;
  const untranslated = subject.isMasqueraded
    ? explainUntranslated(traced)
    : undefined;
  return untranslated ?? (kind === "name server" && probe.protocol === "dns"
    ? {
      check: "packet-ends",
      text: `the name server ${probe.destination} does not answer ` +
        probe.from.name,
      advice: "look at the name server, and at its way back to the container",
      look: `dig +time=1 @${probe.destination} . NS`,
      isVague: true,
    }
    : undefined);
}

/** Explains that the node has the destination's address itself. */
function explainOwn(
  { host }: Node,
  { probe: { destination } }: Trace,
): Cause | undefined {
  const own = host.address.list()
    .find(({ address }) => address.ip.equals(destination));
  if (own === undefined) return undefined;
  const link = host.link.find(own.ifindex)?.name;
  return {
    check: "packet-ends",
    text: `the node itself has ${destination}, on "${link}"`,
    command: shell`ip address del ${own.address} dev ${link}`,
    look: `ip address show to ${destination}`,
  };
}

/** Tells how a packet left the node, where nothing more is known of it. */
function explainDeparture({ packets, connection, probe }: Trace): Cause {
  const last = packets[0]?.links.at(-1);
  const { destination } = probe;
  const by = last === undefined
    ? ""
    : ` ${last.isSent ? "leave by" : "arrive at"} "${last.name}"`;
  const as = connection === undefined
    ? ""
    : ` as ${connection.reply.destination}`;
  return {
    check: "packet-ends",
    text: `packets to ${destination}${by}${as}, and no answer comes back`,
    advice: "nothing on this node stops them: look at the other end, and at " +
      "its way back",
    look: `ip route get ${destination}`,
  };
}

function causeOf(
  { step, text, command, advice, look, takes }: Made,
  { origin }: Endpoint,
): Cause {
  const isShared = ["uplink", "uplink-gateway"].includes(step);
  return {
    check: text.startsWith("the routing rule ") ? "rule-stops" : "packet-ends",
    text: takes !== undefined
      ? `${origin.name}: ${text}`
      : isShared
      ? text
      : `packets of ${origin.name} end at ${step}: ${text}`,
    command,
    advice: advice ?? (takes === undefined ? undefined : SBR_ADVICE),
    look,
  };
}

const SBR_ADVICE =
  "let one network only have a default route; sbr sends each " +
  "address's packets by its own interface";

/** Lists the namespaces that the packets of a probe pass. */
function listPlaces(node: Node, { subject, peer }: Wanted): Place[] {
  const links = [
    ...subject.hostLinks,
    ...peer?.hostLinks ?? [],
    ...listUplinks(node).map(({ name }) => name),
  ];
  const places = [
    { netns: node.host.netns, links: [...new Set(links)] },
    subject.place,
    ...peer === undefined ? [] : [peer.place],
  ];
  return places;
}

/** Lists the namespaces whose routes decide about a probe. */
function listHops(node: Node, { probe, subject }: Wanted): Hop[] {
  const { netns } = node.host;
  const { from, destination } = probe;
  if (from.netns.path !== subject.origin.netns.path) {
    return from.netns.path === netns.path
      ? [{ netns, container: undefined, input: "lo" }]
      : [];
  }
  const own = { netns: from.netns, container: from.name, input: "lo" };
  const input = subject.hostLinks.at(-1);
  // A bridge forwards between its ports without routes.
  const isBridged = subject.hostLinks.length > 1 &&
    subject.start.address.contains(destination);
  return input === undefined || isBridged
    ? [own]
    : [own, { netns, container: undefined, input }];
}

/** The steps that matter for where a packet goes. */
function stepsFor(kind: Kind): readonly Step[] {
  const names: readonly string[] = ["outside", "name server", "named"]
      .includes(kind)
    ? HOST_STEPS.map(({ name }) => name)
    : ["router", "forwarding", "return-route"];
  return [
    ...CONTAINER_STEPS,
    ...HOST_STEPS.filter(({ name }) => names.includes(name)),
  ];
}

/** Describes who does not reach whom, for the effect of a cause. */
export function describeLoss({ probe, kind }: Wanted): string {
  const { from, to, destination } = probe;
  const what = kind === "host port" ? "" : ` ${destination}`;
  return `${from.name} does not reach ${to}${what}`;
}
