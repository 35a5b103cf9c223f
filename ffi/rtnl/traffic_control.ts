/**
 * Traffic control of a namespace: qdiscs, their classes and filters.
 *
 * @module
 */

import type { NetlinkSocket } from "../netlink/socket.ts";
import { ClassRequests } from "./traffic_control_class.ts";
import { FilterRequests } from "./traffic_control_filter.ts";
import { QdiscRequests } from "./traffic_control_qdisc.ts";

/**
 * Parents of qdiscs and filters that are not a handle.
 *
 * Source: include/uapi/linux/pkt_sched.h `TC_H_ROOT`, `TC_H_INGRESS`,
 * `TC_H_MIN_INGRESS`.
 */
export const Parent = {
  /** The qdisc for packets that a link sends. */
  Root: 0xffff_ffff,
  /** The qdisc for packets that a link receives: `ingress` or `clsact`. */
  Ingress: 0xffff_fff1,
  /** The filters of a clsact for packets that a link receives. */
  ClsactIngress: 0xffff_fff2,
  /** The filters of a clsact for packets that a link sends. */
  ClsactEgress: 0xffff_fff3,
} as const;

/**
 * Builds a handle, such as `1:30` in hexadecimal.
 *
 * @param major The qdisc's number, 16 bits
 * @param minor The class's number, 16 bits; 0 for the qdisc itself
 */
export function handleOf(major: number, minor = 0): number {
  return major * 0x1_0000 + minor;
}

/** Traffic control of the namespace in which the socket was opened. */
export class TrafficControl {
  /** The links' qdiscs. */
  readonly qdisc: QdiscRequests;
  /** The qdiscs' classes. */
  readonly class: ClassRequests;
  /** The qdiscs' filters. */
  readonly filter: FilterRequests;

  /**
   * Uses an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.qdisc = new QdiscRequests(socket);
    this.class = new ClassRequests(socket);
    this.filter = new FilterRequests(socket);
  }
}
