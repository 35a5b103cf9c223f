/**
 * Sends probes, and finds the causes for which some were lost.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Node } from "../doctor/node.ts";
import { listUplinks } from "../doctor/subnets.ts";
import { CONTAINER_STEPS } from "../doctor/way/container.ts";
import { HOST_STEPS } from "../doctor/way/host.ts";
import { FAR, type Step } from "../doctor/way/trip.ts";
import { listEnds, type Made, STEPS } from "../doctor/way/walk.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Cause } from "./cause.ts";
import { explain, explainUntranslated, INTENDED } from "./explain.ts";
import { explainEnd, findEnded } from "./reasons.ts";
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
  const lost = all.filter((wanted) => !isWell(answerOf(wanted)));
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
      const isSmallWell = all.some((other) =>
        other.probe.from === one.probe.from &&
        other.probe.destination.equals(one.probe.destination) &&
        other.probe.protocol === "ping" &&
        other.probe.length === undefined && isWell(answerOf(other))
      );
      const cause = trace &&
        await findCause(node, one, trace, answerOf(one), isSmallWell);
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

/** Finds the cause for which a probe is lost. */
async function findCause(
  node: Node,
  wanted: Wanted,
  traced: Trace,
  answer: Answer,
  isSmallWell: boolean,
): Promise<Cause | undefined> {
  const { subject, peer, kind } = wanted;
  // It was late, or another one was dropped by chance.
  if (isWell(traced.answer) && kind !== "host port") return undefined;
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
  return await findMade() ?? explainRoute(node, traced) ??
    explainSize(wanted, isSmallWell) ?? explainEnd(traced) ??
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

/** Finds a route that forbids the destination, on the node or in the container. */
function explainRoute(
  node: Node,
  { probe: { from, destination } }: Trace,
): Cause | undefined {
  using own = Rtnl.open(from.netns.path);
  for (const rtnl of [own, node.host]) {
    const route = rtnl.route.listEntries().find((one) =>
      one.family === destination.family && !one.isUnicast && !one.isDefault &&
      one.table !== Table.Local && one.destination.contains(destination)
    );
    if (route === undefined) continue;
    const isHost = rtnl === node.host;
    const ip = destination.family === 4 ? "ip" : "ip -6";
    const inside = isHost ? "" : shell`nsenter --net=${from.netns.path} `;
    const table = route.table === Table.Main ? "" : ` table ${route.table}`;
    return {
      check: "packet-ends",
      text: `a route of the ${isHost ? "node" : "container"} to ` +
        `${route.destination} (blackhole, unreachable or prohibit) stops packets`,
      command: `${inside}${ip} route del ${route.destination}${table}`,
      advice: "and in the program that added it, or it comes back",
      look: `${inside}${ip} route show table all match ${destination}`,
    };
  }
  return undefined;
}

/** Explains that only large packets are lost. */
function explainSize(
  { probe: { length, destination, from } }: Wanted,
  isSmallWell: boolean,
): Cause | undefined {
  if (length === undefined || !isSmallWell) return undefined;
  return {
    check: "packet-ends",
    text: `large packets from ${from.name} to ${destination} are lost: ` +
      `smaller ones arrive, and ${length} bytes, the MTU, do not`,
    advice: 'find what the path takes, set "mtu" in the network\'s ' +
      "configuration to it, and restart the container",
    look: `ping -M do -s ${
      length - 28
    } ${destination}; tracepath ${destination}`,
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
