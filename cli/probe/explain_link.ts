/**
 * Explains that a link ends packets: a filter or a qdisc of traffic control, or a port
 * of a bridge.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import type { Link } from "../../ffi/rtnl/link_types.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import type { Filter } from "../../ffi/rtnl/traffic_control_filter.ts";
import { NANOSECONDS_PER_TICK } from "../../ffi/rtnl/traffic_control_kinds.ts";
import { type Cause, POLICY_ADVICE, type Remedy, removal } from "./cause.ts";
import { findMaster, listCachedPlugins, listLive } from "../node/live.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { listUplinks } from "../node/routers.ts";
import { findEnded } from "./reasons.ts";
import type { Trace } from "./trace.ts";
import { isOnNode, type TracedLink } from "./traced_link.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";

/** Explains by the link at which the kernel ended a packet. */
export function explainLink(
  trace: Trace,
  node: NodeReader,
): Cause | undefined {
  const ended = findEnded(trace);
  if (ended === undefined) return undefined;
  const { reason = "", location, last: { link } } = ended;
  // A link inside a container can have the name of a link of the node.
  if (link === undefined || !isOnNode(ended.last)) return undefined;
  if (reason === "TC_INGRESS") return explainFilter(node, link, "ingress");
  if (reason === "TC_EGRESS") {
    const { link: filtered, isSure } = findFiltered(trace, node, ended.last);
    return filtered && explainFilter(node, filtered, "egress", isSure);
  }
  if (/^QDISC_/.test(reason)) return explainQdisc(node, link);
  if (location.startsWith("br_")) return explainPort(node, link);
  return undefined;
}

/** Explains that packets of a container are redirected to a link that leads nowhere. */
export function explainRedirect(
  node: NodeReader,
  names: readonly string[],
): Cause | undefined {
  for (const name of names) {
    const link = node.host.link.find(name);
    const filter = link && listFilters(node, link, "ingress")
      .find(({ redirectTo }) => redirectTo !== undefined);
    if (link === undefined || filter?.redirectTo === undefined) continue;
    const target = node.host.link.find(filter.redirectTo);
    // The plugin bandwidth limits egress with an IFB link.
    if (target?.kind === "ifb" && target.isUp) continue;
    const look = shell`tc -s filter show dev ${name} ingress`;
    const del =
      shell`tc filter del dev ${name} ingress pref ${filter.priority}`;
    const to = target === undefined
      ? "a link that was deleted"
      : `"${target.name}"${target.isUp ? "" : ", which is down"}`;
    return {
      check: "packet-ends",
      text: `a filter of "${name}" redirects what it receives to ${to}`,
      ...target?.kind === "ifb"
        ? { command: shell`ip link set ${target.name} up` }
        : removalFrom(node, link, del, look),
    };
  }
  return undefined;
}

type Side = "ingress" | "egress";

function listFilters(
  { host }: NodeReader,
  { index }: Link,
  side: Side,
): Filter[] {
  const { filter } = new TrafficControl(host.socket);
  return (side === "ingress"
    ? [Parent.Ingress, Parent.ClsactIngress]
    : [Parent.ClsactEgress]).flatMap((parent) => filter.list(index, parent));
}

/**
 * Finds the link at which a filter dropped a packet on its way out, among the links that
 * the probe might pass: the kernel does not report yet by which link it was to leave.
 */
function findFiltered(
  { places: [own] }: Trace,
  node: NodeReader,
  { name, isSent }: TracedLink,
): { readonly link: Link | undefined; readonly isSure: boolean } {
  const others = (own?.links ?? []).filter((one) => one !== name);
  const [link, ...more] = [...isSent ? [name] : [], ...others]
    .flatMap((one) => node.host.link.find(one) ?? [])
    .filter((one) => listFilters(node, one, "egress").length > 0);
  return { link, isSure: more.length === 0 };
}

/**
 * Reports whether all plugins that attached a container behind a link are of this
 * project: a third-party program, such as Cilium, might enforce policies on other links.
 */
function isOfOwnPlugins(node: NodeReader, { index }: Link): boolean {
  const attached = listLive(node).filter(({ hostEnd, entry }) =>
    hostEnd?.index === index || entry?.index === index
  );
  return attached.length > 0 &&
    attached.every(({ cached }) =>
      listCachedPlugins(cached).every(({ type }) => METADATA.has(`${type}`))
    );
}

function explainFilter(
  node: NodeReader,
  link: Link,
  side: Side,
  isSure = true,
): Cause {
  const { name } = link;
  const filters = listFilters(node, link, side);
  const [filter] = filters;
  const look = shell`tc -s filter show dev ${name} ` + side;
  const del = shell`tc filter del dev ${name} ` + side;
  const isOne = filter !== undefined && filters.length === 1;
  const isOwn = isOfOwnPlugins(node, link);
  const redirect = explainRedirect(node, side === "ingress" ? [name] : []);
  if (redirect !== undefined) return redirect;
  const isUplink = listUplinks(node).some(({ index }) => index === link.index);
  const text =
    `a filter of traffic control drops packets on "${name}" (${side})`;
  const check = "packet-ends";
  const isOfPolicies = isSure && !isOwn && !isUplink &&
    filters.some(({ kind }) => kind === "bpf");
  if (isOfPolicies) {
    return { check, text, advice: POLICY_ADVICE, look, isIntended: true };
  }
  return {
    check,
    text,
    ...isOne && isOwn ? removal(`${del} pref ${filter.priority}`, look) : {
      advice: isOne
        ? "find out which program added the filter; to delete it: " +
          `${del} pref ${filter.priority}`
        : "find out which program added the filters; to delete one: " +
          `${del} pref PREF`,
      look,
    },
  };
}

/**
 * Describes how to remove what another program has added to a link. On a link that
 * others use, too, such as an uplink, its program decides.
 */
function removalFrom(
  node: NodeReader,
  { index }: Link,
  command: string,
  look: string,
): Remedy {
  const isOwn = listLive(node).some(({ hostEnd, entry }) =>
    hostEnd?.index === index || entry?.index === index
  );
  return isOwn && !listUplinks(node).some((uplink) => uplink.index === index)
    ? removal(command, look)
    : {
      advice: `find out which program added it; to remove it: ${command}`,
      look,
    };
}

function explainQdisc(node: NodeReader, link: Link): Cause {
  const { index, name, mtu } = link;
  const { kind, bucket } =
    new TrafficControl(node.host.socket).qdisc.find(index, Parent.Root) ?? {};
  const burst = bucket === undefined ? 0 : Math.floor(
    bucket.bytesPerSecond * bucket.bufferTicks * NANOSECONDS_PER_TICK / 1e9,
  );
  return {
    check: "packet-ends",
    text: `the qdisc of "${name}"${kind === undefined ? "" : ` (${kind})`} ` +
      (burst > 0 && burst < mtu
        ? `has a burst of ${burst} bytes: larger packets never pass`
        : "drops each packet: its limit or its loss lets none pass"),
    ...removalFrom(
      node,
      link,
      shell`tc qdisc del dev ${name} root`,
      shell`tc -s qdisc show dev ${name}`,
    ),
  };
}

/** Explains that ports of a bridge do not forward to each other. */
export function explainPort(node: NodeReader, port: Link): Cause | undefined {
  const bridge = findMaster(node.host, port);
  if (bridge === undefined) return undefined;
  const ports = node.host.link.list()
    .filter(({ masterIndex }) => masterIndex === bridge.index);
  const listed = (some: readonly Link[]): string =>
    some.map(({ name }) => `"${name}"`).join(", ");
  // Of other ports, such as the node's cable, their program decides.
  const ofContainers = new Set(
    listLive(node).flatMap(({ hostEnd }) => hostEnd?.index ?? []),
  );
  const isOwn = ({ index }: Link): boolean => ofContainers.has(index);
  const found = (
    text: string,
    some: readonly Link[],
    options: string,
    before: readonly string[] = [],
  ): Cause => {
    const commands = some.filter(isOwn)
      .map(({ name }) => shell`bridge link set dev ${name} ` + options);
    return {
      check: "packet-ends",
      text,
      ...commands.length > 0
        ? { command: [...before, ...commands].join(" && ") }
        : { advice: `change it in the program that manages "${bridge.name}"` },
      look: shell`bridge -details link show master ${bridge.name}`,
    };
  };
  const held = ports.filter(({ port }) =>
    port?.state === "listening" || port?.state === "learning"
  );
  if (held.length > 0) {
    const cause = found(
      `STP holds back ${listed(held)}, ports of "${bridge.name}"`,
      held,
      "state 3",
      [shell`ip link set ${bridge.name} type bridge stp_state 0`],
    );
    // A physical link might close a loop.
    return ports.every(isOwn) ? cause : {
      ...cause,
      command: undefined,
      advice: "wait: a port forwards after twice the forward_delay of " +
        `"${bridge.name}", which you may lower; if it does not, change it in ` +
        "the program that manages the bridge",
    };
  }
  // The kernel disables a port whose link has no carrier.
  const isOn = bridge.isUp && port.isUp && port.isOperational;
  if (isOn && port.port !== undefined && port.port.state !== "forwarding") {
    return found(
      `"${port.name}" is ${port.port.state} as a port of "${bridge.name}"`,
      [port],
      "state 3",
    );
  }
  const isolated = ports.filter(({ port }) => port?.isolated === true);
  if (
    isolated.some(({ index }) => index === port.index) && isolated.length > 1
  ) {
    return found(
      `ports of "${bridge.name}" are isolated from each other: ` +
        listed(isolated),
      isolated,
      "isolated off",
    );
  }
  const deaf = ports.filter(({ port }) =>
    port?.learns === false && !port.isFlooded
  );
  return deaf.length === 0 ? undefined : found(
    `"${bridge.name}" neither learns the MACs behind ${listed(deaf)} nor ` +
      "floods there",
    deaf,
    "learning on flood on",
  );
}
