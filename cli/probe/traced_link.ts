/**
 * Finds the links that the kernel names in a trace: it reports a link's name without
 * the namespace, and the link of a container is often named like a link of the node.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { PacketPath } from "../../ffi/packet_events.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Place, Trace } from "./trace.ts";

/** A link that a packet passed. */
export interface TracedLink {
  readonly name: string;
  /** Whether the packet left by the link, instead of entering by it. */
  readonly isSent: boolean;
  /** The namespace of the link; undefined if the probe names no namespace with it. */
  readonly place: Place | undefined;
  /** The link itself; undefined if it was not found. */
  readonly link: Link | undefined;
  /** The link that the packet passed before it. */
  readonly previous: TracedLink | undefined;
}

/** Returns the last link that a packet passed; undefined without one. */
export function findLastLink(
  trace: Pick<Trace, "packets" | "places" | "probe">,
  packet: PacketPath,
): TracedLink | undefined {
  const start = findStart(trace, packet);
  let last: TracedLink | undefined;
  for (const { name, isSent } of packet.links) {
    const found = trace.places.flatMap((place) => {
      const link = findLink(place, name);
      return link === undefined ? [] : [{ place, link }];
    });
    const from = last === undefined ? start : pathOf(last);
    const isSame = ({ place }: { place: Place }): boolean =>
      place.netns.path === from;
    const isCrossing = last?.isSent === true && !isSent;
    const { place, link } = isCrossing && last?.link?.kind === "veth"
      ? found.find(({ link }) => isPeer(link, last?.link)) ?? {}
      : found.find(isSame) ??
        (last !== undefined && last.place === undefined ? {} : found[0] ?? {});
    last = { name, isSent, place, link, previous: last };
  }
  return last;
}

/**
 * Returns the path of the namespace in which a packet starts; undefined if it came in
 * from elsewhere. An answer leaves by the link by which an earlier packet arrived.
 */
function findStart(
  trace: Pick<Trace, "packets" | "places" | "probe">,
  packet: PacketPath,
): string | undefined {
  const [first] = packet.links;
  if (first?.isSent !== true) return undefined;
  const earlier = trace.packets.slice(0, trace.packets.indexOf(packet));
  for (const one of earlier) {
    const { name, isSent } = one.links.at(-1) ?? {};
    if (name !== first.name || isSent === true) continue;
    return pathOf(findLastLink(trace, one));
  }
  return trace.probe.from.netns.path;
}

function pathOf(traced: TracedLink | undefined): string | undefined {
  return traced?.place?.netns.path;
}

function findLink({ netns }: Place, name: string): Link | undefined {
  // The namespace or the link might have been deleted since.
  return ifPossible(() => {
    using rtnl = Rtnl.open(netns.path);
    return rtnl.link.find(name);
  });
}

/** Reports whether two links are the ends of one veth pair. */
function isPeer(link: Link, other: Link | undefined): boolean {
  return link.kind === "veth" && link.linkIndex === other?.index &&
    other?.linkIndex === link.index;
}

/** Reports whether a link is in the node's own namespace. */
export function isOnNode({ place }: TracedLink): boolean {
  return place !== undefined && place.owner === undefined;
}

/** Names a link as a person on the node finds it. */
export function describeLink(traced: TracedLink): string {
  const { name, place, link, previous } = traced;
  if (isOnNode(traced)) return `"${name}"`;
  if (place !== undefined) {
    return `"${name}" (index ${link?.index} in the namespace of ${place.owner})`;
  }
  const peer = previous?.link?.kind === "veth"
    ? `index ${previous.link.linkIndex} in `
    : "in ";
  const where = previous === undefined
    ? ""
    : ` behind ${describeLink(previous)}`;
  return `"${name}" (${peer}a different namespace${where})`;
}

/** Writes a command that runs where a link is; undefined if that is not known. */
export function insideOf(
  { place }: TracedLink,
  command: string,
): string | undefined {
  if (place === undefined) return undefined;
  return place.owner === undefined
    ? command
    : shell`nsenter --net=${place.netns.path} ` + command;
}
