/**
 * Traffic control of one namespace: qdiscs, their classes and filters.
 *
 * @module
 */

import type { NetlinkSocket } from "../netlink/socket.ts";
import { ClassRequests } from "./traffic_control_class.ts";
import { FilterRequests } from "./traffic_control_filter.ts";
import { QdiscRequests } from "./traffic_control_qdisc.ts";

/**
 * Where qdiscs and filters hang other than on a qdisc's handle.
 *
 * Source: include/uapi/linux/pkt_sched.h `TC_H_ROOT`, `TC_H_INGRESS`,
 * `TC_H_MIN_INGRESS`.
 */
export const Parent = {
  /** The qdisc for what a link sends. */
  Root: 0xffff_ffff,
  /** The qdisc for what a link receives: `ingress` or `clsact`. */
  Ingress: 0xffff_fff1,
  /** A clsact's filters for what a link receives. */
  ClsactIngress: 0xffff_fff2,
} as const;

/**
 * Makes a handle, as `1:30` in hexadecimal.
 *
 * @param major Of the qdisc, 16 bits
 * @param minor Of the class, 16 bits; 0 is the qdisc itself
 */
export function handleOf(major: number, minor = 0): number {
  return major * 0x1_0000 + minor;
}

/** Traffic control of the namespace in which the socket was opened. */
export class TrafficControl {
  /** Its links' qdiscs. */
  readonly qdisc: QdiscRequests;
  /** Their classes. */
  readonly class: ClassRequests;
  /** Their filters. */
  readonly filter: FilterRequests;

  /**
   * Speaks through an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.qdisc = new QdiscRequests(socket);
    this.class = new ClassRequests(socket);
    this.filter = new FilterRequests(socket);
  }
}
