/**
 * The segments of networks: an address can be used twice on different segments.
 *
 * @module
 */

import { findValue, type JsonValue } from "../../../base/json/json.ts";
import type { Link } from "../../../ffi/rtnl/link_types.ts";
import { SEGMENTS } from "../../parts/traits.ts";
import { type Delegate, pluginsOf } from "../model/delegate.ts";

/** Kinds of links whose frames leave through their lower link. */
const UPPER_KINDS = ["ipvlan", "macvlan", "vlan"];

/**
 * Reports whether two networks might share a segment, because one of them is routed or
 * unknown, or because both have frames with the same VLAN tags on the same link.
 *
 * @param links The node's links
 */
export function mayShareSegment(
  left: Delegate["conf"],
  right: Delegate["conf"],
  links: readonly Link[],
): boolean {
  const [one, other] = [left, right].map((conf) => listSegments(conf, links));
  return one === undefined || other === undefined ||
    one.some((segment) => other.includes(segment));
}

/**
 * Lists the segments that a network joins, each as a link and the VLAN tags of its
 * frames, the outer tag first. Undefined if the node routes the network, or it is
 * unknown.
 */
function listSegments(
  conf: Delegate["conf"],
  links: readonly Link[],
): string[] | undefined {
  const [plugin] = pluginsOf(conf);
  const keys = SEGMENTS.get(plugin?.type ?? "");
  if (plugin === undefined || keys === undefined) return undefined;
  const valueOf = (key = ""): JsonValue =>
    findValue(plugin.document, key) || "";
  const name = valueOf(keys.link.key) || keys.link.usual;
  const isUnknown = keys.unless.some((key) => valueOf(key) !== "");
  if (name === undefined || isUnknown) return undefined;
  const tags = [valueOf(keys.vlan)].filter((tag) => tag !== "");
  const link = links.find((link) =>
    link.name === name || link.alternativeNames.some((one) => one === name)
  );
  return link === undefined
    ? [JSON.stringify([name, ...tags])]
    : listUplinks(link, tags, links);
}

/** Lists the lowest links through which frames leave a link, with the frames' tags. */
function listUplinks(
  { index, name, kind, linkIndex, data }: Link,
  innerTags: readonly JsonValue[],
  links: readonly Link[],
): string[] {
  const tags = data?.kind === "vlan" ? [data.id, ...innerTags] : innerTags;
  const lower = links.filter((one) =>
    UPPER_KINDS.includes(kind)
      ? one.index === linkIndex
      : one.masterIndex === index
  );
  return lower.length === 0
    ? [JSON.stringify([name, ...tags])]
    : lower.flatMap((one) => listUplinks(one, tags, links));
}
