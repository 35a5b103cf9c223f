/**
 * Classes of the hierarchical token bucket, htb.
 *
 * @module
 */

import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { delClass, getClass, newClass } from "./traffic_control_message.ts";
import { decodeRate, encodeRate } from "./traffic_control_kinds.ts";

/**
 * Without a link layer, the kernel requires a rate table, and logs a warning.
 *
 * Source: include/uapi/linux/pkt_sched.h `TC_LINKLAYER_ETHERNET`.
 */
const ETHERNET = 1;

/** A class of an htb. */
export interface HtbClass {
  /** Index of the link. */
  readonly ifindex: number;
  /** Major number of the qdisc, minor number of the class. */
  readonly handle: number;
  /** Handle of the parent qdisc or class. For a qdisc the kernel reports `Parent.Root`. */
  readonly parent: number;
  /** The maximum rate in bytes per second. */
  readonly bytesPerSecond: number;
  /** The burst, as the time that sending it at the rate takes, in ticks. */
  readonly bufferTicks: number;
  /** How many bytes it sends before the next class's turn. */
  readonly quantumBytes: number;
}

/** Classes of the namespace in which the socket was opened. */
export class ClassRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Uses an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Adds a class that cannot borrow from other classes.
   *
   * @throws {NetlinkError} EEXIST if the handle is taken, ENOENT if the qdisc
   * does not exist
   */
  add(htbClass: HtbClass): void {
    this.#new(htbClass, Flag.Create | Flag.Exclusive);
  }

  /**
   * Adds a class, or changes the class with this handle.
   *
   * @throws {NetlinkError} ENOENT if the qdisc does not exist
   */
  replace(htbClass: HtbClass): void {
    this.#new(htbClass, Flag.Create | Flag.Replace);
  }

  #new(htbClass: HtbClass, flags: number): void {
    const { ifindex, handle, parent } = htbClass;
    const { spec, rate64 } = encodeRate(htbClass.bytesPerSecond);
    const rate = { ...spec, linkLayer: ETHERNET };
    this.#socket.request(newClass, {
      flags,
      header: { ifindex, handle, parent },
      attributes: {
        kind: "htb",
        options: {
          class: {
            rate,
            ceil: rate,
            buffer: htbClass.bufferTicks,
            ceilBuffer: htbClass.bufferTicks,
            quantum: htbClass.quantumBytes,
          },
          rate64,
          ceil64: rate64,
        },
      },
    });
  }

  /**
   * Deletes a class.
   *
   * @throws {NetlinkError} ENOENT if it does not exist, EBUSY if filters refer
   * to it
   */
  del(ifindex: number, handle: number): void {
    this.#socket.request(delClass, { header: { ifindex, handle } });
  }

  /** Lists the classes of a link's htb. */
  list(ifindex: number): HtbClass[] {
    return this.#socket.dump(getClass, { header: { ifindex } }, newClass)
      .flatMap(({ header: { handle, parent }, attributes }) => {
        const { class: parameters, rate64 } = attributes.options ?? {};
        if (parameters === undefined) return [];
        return [{
          ifindex,
          handle,
          parent,
          bytesPerSecond: decodeRate(parameters.rate, rate64),
          bufferTicks: parameters.buffer ?? 0,
          quantumBytes: parameters.quantum ?? 0,
        }];
      });
  }
}
