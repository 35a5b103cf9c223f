/**
 * Qdiscs: queues of links and their limits.
 *
 * @module
 */

import { isErrno } from "../errno.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import {
  decodeRate,
  encodeRate,
  type KindOptions,
} from "./traffic_control_kinds.ts";
import { delQdisc, getQdisc, newQdisc } from "./traffic_control_message.ts";

/** Source: include/uapi/linux/pkt_sched.h `TC_HTB_PROTOVER`, and the default of tc. */
const HTB_VERSION = 3, HTB_RATE_TO_QUANTUM = 10;

/** The limits of a token bucket. */
export interface TokenBucket {
  /** The rate at which tokens are added. */
  readonly bytesPerSecond: number;
  /** The burst of a full bucket, as the time that filling it takes, in ticks. */
  readonly bufferTicks: number;
  /**
   * The exact burst in bytes, instead of `bufferTicks`. The kernel does not
   * report it.
   */
  readonly burstBytes?: number | undefined;
  /** The most bytes that can wait for tokens. */
  readonly limitBytes: number;
}

/** A kind of qdisc and its parameters. */
export type QdiscSettings =
  | { readonly kind: "tbf"; readonly bucket: TokenBucket }
  /** `defaultClass` is the minor number of the class for packets that no filter matches. */
  | { readonly kind: "htb"; readonly defaultClass: number }
  | { readonly kind: "bfifo"; readonly limitBytes: number }
  | { readonly kind: "ingress" | "clsact" };

/** A qdisc to add. */
export type NewQdisc = QdiscSettings & {
  /** Index of the link. */
  readonly ifindex: number;
  /** `Parent.Root`, `Parent.Ingress`, or the handle of a class. */
  readonly parent: number;
  /** The handle; the kernel chooses it if undefined. */
  readonly handle?: number | undefined;
};

/** A qdisc as the kernel reports it. */
export interface Qdisc {
  /** Index of the link. */
  readonly ifindex: number;
  /** The qdisc's kind, such as `tbf` or `fq_codel`. */
  readonly kind: string;
  /** The handle; 0 for a qdisc that the kernel added itself. */
  readonly handle: number;
  /** The parent, as in {@linkcode NewQdisc}. */
  readonly parent: number;
  /** The limits of a tbf. */
  readonly bucket?: TokenBucket | undefined;
  /** For an htb: minor number of the class for packets that no filter matches. */
  readonly defaultClass?: number | undefined;
}

/** Qdiscs of the namespace in which the socket was opened. */
export class QdiscRequests {
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
   * Adds a qdisc.
   *
   * @throws {NetlinkError} EEXIST if the parent has a qdisc that the kernel did not
   * add itself, ENOENT if the kernel does not support the kind
   */
  add(qdisc: NewQdisc): void {
    this.#new(qdisc, Flag.Create | Flag.Exclusive);
  }

  /**
   * Adds a qdisc, replaces an existing qdisc, or changes its parameters.
   *
   * @throws {NetlinkError} EINVAL if the handle has a qdisc of a different kind
   */
  replace(qdisc: NewQdisc): void {
    this.#new(qdisc, Flag.Create | Flag.Replace);
  }

  #new(qdisc: NewQdisc, flags: number): void {
    const { ifindex, parent, handle = 0, kind } = qdisc;
    this.#socket.request(newQdisc, {
      flags,
      header: { ifindex, parent, handle },
      attributes: { kind, options: optionsOf(qdisc) },
    });
  }

  /**
   * Deletes a qdisc with its classes and filters.
   *
   * @param parent As in {@linkcode NewQdisc}
   * @throws {NetlinkError} ENOENT or EINVAL if it does not exist, ENODEV
   */
  del(ifindex: number, parent: number): void {
    this.#socket.request(delQdisc, { header: { ifindex, parent } });
  }

  /**
   * Looks up a link's own qdisc for packets that the link sends or receives.
   *
   * @param parent `Parent.Root` or `Parent.Ingress`
   * @returns Undefined if it does not exist
   * @throws {NetlinkError} ENODEV
   */
  find(ifindex: number, parent: number): Qdisc | undefined {
    try {
      const [answer] = this.#socket.request(getQdisc, {
        // Before Linux 6.8, the answer is a notification, which is only received as
        // an echo.
        flags: Flag.Echo,
        header: { ifindex, parent },
      }, newQdisc);
      return answer === undefined ? undefined : decodeQdisc(answer);
    } catch (error) {
      if (isErrno(error, "ENOENT")) return undefined;
      throw error;
    }
  }

  /** Lists the qdiscs of a link, or of all links. The kernel walks all links either way. */
  list(ifindex?: number): Qdisc[] {
    const header = ifindex === undefined ? {} : { ifindex };
    return this.#socket.dump(getQdisc, { header }, newQdisc).map(decodeQdisc)
      .filter((qdisc) => (ifindex ?? qdisc.ifindex) === qdisc.ifindex);
  }
}

function optionsOf(qdisc: QdiscSettings): KindOptions {
  switch (qdisc.kind) {
    case "tbf":
      return bucketOptions(qdisc.bucket);
    case "htb":
      return {
        global: {
          version: HTB_VERSION,
          rateToQuantum: HTB_RATE_TO_QUANTUM,
          defaultClass: qdisc.defaultClass,
        },
      };
    case "bfifo":
      return { limit: qdisc.limitBytes };
    default:
      return {};
  }
}

function bucketOptions(
  { bytesPerSecond, bufferTicks, burstBytes, limitBytes }: TokenBucket,
): KindOptions {
  const { spec, rate64 } = encodeRate(bytesPerSecond);
  return {
    bucket: { rate: spec, limit: limitBytes, buffer: bufferTicks },
    rate64,
    burst: burstBytes,
  };
}

type QdiscAnswer = ReturnType<typeof newQdisc.decode>;

function decodeQdisc({ header, attributes }: QdiscAnswer): Qdisc {
  const { ifindex, handle, parent } = header;
  const { kind = "", options: { bucket, rate64, global } = {} } = attributes;
  return {
    ifindex,
    kind,
    handle,
    parent,
    bucket: bucket && {
      bytesPerSecond: decodeRate(bucket.rate, rate64),
      bufferTicks: bucket.buffer ?? 0,
      limitBytes: bucket.limit ?? 0,
    },
    defaultClass: global?.defaultClass,
  };
}
