/**
 * Neighbour messages of rtnetlink, as tables.
 *
 * Source: include/uapi/linux/neighbour.h, Documentation/netlink/specs/rt-neigh.yaml.
 *
 * @module
 */

import { i32, struct, u16, u32, u8 } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { attributeSet, ip, mac } from "../netlink/attribute.ts";
import { message } from "../netlink/message.ts";

/** Fixed header of RTM_*NEIGH. Source: `struct ndmsg`. */
const neighborHeader = struct({
  family: u8,
  padding1: u8,
  padding2: u16,
  ifindex: i32,
  state: u16,
  flags: u8,
  type: u8,
});

/** Attributes of RTM_*NEIGH. */
const neighborAttributes = attributeSet({
  destination: [1, ip],
  linkLayerAddress: [2, mac],
  ifindex: [8, u32],
  master: [9, u32],
});

/** Names the neighbour of a message in errors. */
function describe(
  { ifindex }: { readonly ifindex?: number },
  { destination }: { readonly destination?: Ip | undefined },
): string {
  return `${destination} of link ${ifindex}`;
}

/** Adds or reports a neighbour. */
export const newNeighbor = message(
  "RTM_NEWNEIGH",
  28,
  neighborHeader,
  neighborAttributes,
  describe,
);

/** Deletes a neighbour. */
export const delNeighbor = message(
  "RTM_DELNEIGH",
  29,
  neighborHeader,
  neighborAttributes,
  describe,
);

/** Requests neighbours. */
export const getNeighbor = message(
  "RTM_GETNEIGH",
  30,
  neighborHeader,
  neighborAttributes,
);
