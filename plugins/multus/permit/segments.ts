/**
 * The segments of networks: an address can be used twice on different segments.
 *
 * @module
 */

import { findValue, type JsonValue } from "../../../base/json/json.ts";
import type { Link } from "../../../ffi/rtnl/link_types.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { SEGMENTS } from "../../parts/traits.ts";
import { type Delegate, pluginsOf } from "../model/delegate.ts";

/** Kinds of links whose frames leave through their lower link. */
const UPPER_KINDS = ["ipvlan", "macvlan", "vlan"];

/**
 * Reports whether two networks might share a segment, because one of them is routed or
 * unknown, because both have frames with the same VLAN tags on the same link, or
 * because the node's links keep changing.
 */
export function mayShareSegment(
  left: Delegate["conf"],
  right: Delegate["conf"],
  hostNetns: string,
): boolean {
  const [one, other] = [left, right].map(findSegment);
  if (one === undefined || other === undefined) return true;
  using host = Rtnl.open(hostNetns);
  const { items: links, isComplete } = host.link.listSome();
  if (!isComplete) return true;
  const others = listSegments(other, links);
  return listSegments(one, links).some((segment) => others.includes(segment));
}

/** A link, and the VLAN tags of a network's frames on it. */
interface Segment {
  readonly name: JsonValue;
  readonly tags: readonly JsonValue[];
}

/**
 * Finds the segment that a network's configuration names. Undefined if the node routes
 * the network, or it is unknown.
 */
function findSegment(conf: Delegate["conf"]): Segment | undefined {
  const [plugin] = pluginsOf(conf);
  const keys = SEGMENTS.get(plugin?.type ?? "");
  if (plugin === undefined || keys === undefined) return undefined;
  const valueOf = (key = ""): JsonValue =>
    findValue(plugin.document, key) || "";
  const name = valueOf(keys.link.key) || keys.link.usual;
  const isUnknown = keys.unless.some((key) => valueOf(key) !== "");
  if (name === undefined || isUnknown) return undefined;
  return { name, tags: [valueOf(keys.vlan)].filter((tag) => tag !== "") };
}

/**
 * Lists the segments of which a segment consists, each as the lowest link and the VLAN
 * tags of the frames on it, the outer tag first.
 */
function listSegments(
  { name, tags }: Segment,
  links: readonly Link[],
): string[] {
  const link = links.find((link) =>
    link.name === name || link.alternativeNames.some((one) => one === name)
  );
  return link === undefined
    ? [JSON.stringify([name, ...tags])]
    : listUplinks(link, tags, links);
}

/**
 * Lists the lowest links through which frames leave a link, with the frames' tags. A
 * link outside the node is identified by its namespace and index, because the kernel
 * creates a macvlan or ipvlan on a link of this kind on the latter's lower link.
 *
 * Source: drivers/net/macvlan.c `macvlan_common_newlink`,
 * drivers/net/ipvlan/ipvlan_main.c `ipvlan_link_new`.
 */
function listUplinks(
  { index, name, kind, linkIndex = index, linkNsid, data }: Link,
  innerTags: readonly JsonValue[],
  links: readonly Link[],
): string[] {
  const tags = data?.kind === "vlan" ? [data.id, ...innerTags] : innerTags;
  const isUpper = UPPER_KINDS.includes(kind);
  // No link is visited twice, even if the kernel does not report a namespace.
  const others = links.filter((one) => one.index !== index);
  const lower = others.filter((one) =>
    isUpper
      ? linkNsid === undefined && one.index === linkIndex
      : one.masterIndex === index
  );
  const lowest = isUpper ? [linkNsid, linkIndex] : name;
  return lower.length === 0
    ? [JSON.stringify([lowest, ...tags])]
    : lower.flatMap((one) => listUplinks(one, tags, others));
}
