/**
 * Counters of links, which other requests omit.
 *
 * Source: include/uapi/linux/if_link.h `struct rtnl_link_stats64`.
 *
 * @module
 */

import { struct, type StructValue, u32, u64, u8 } from "../../net/bytes.ts";
import { attributeSet } from "../netlink/attribute.ts";
import { message } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { getLink, linkHeader } from "./link_message.ts";

/** The first counters; the kernel has more. */
const COUNTERS = {
  receivedPackets: u64,
  sentPackets: u64,
  receivedBytes: u64,
  sentBytes: u64,
  receiveErrors: u64,
  sendErrors: u64,
  receiveDrops: u64,
  sendDrops: u64,
};
type CounterFields = typeof COUNTERS;

const countedLink = message(
  "RTM_NEWLINK",
  16,
  linkHeader,
  attributeSet({
    counters: [23, struct(COUNTERS)],
    carrier: [33, u8],
    carrierChanges: [35, u32],
  }),
);

/** The counters of a link since its creation. */
export interface LinkStatistics extends StructValue<CounterFields> {
  readonly name: string;
  readonly hasCarrier: boolean;
  /** How often the carrier appeared or disappeared. */
  readonly carrierChanges: number;
}

/**
 * Reads the counters of a link of the namespace in which a socket was opened.
 *
 * @throws {NetlinkError} ENODEV if there is no such link
 */
export function readLinkStatistics(
  socket: NetlinkSocket,
  name: string,
): LinkStatistics {
  const request = { header: {}, attributes: { name } };
  const { counters = {}, carrier, carrierChanges = 0 } =
    socket.get(getLink, request, countedLink).attributes;
  return {
    name,
    hasCarrier: carrier === 1,
    carrierChanges,
    // A decoded struct contains all fields.
    ...counters as StructValue<CounterFields>,
  };
}
