/**
 * Both directions of a veth pair: the host end's outgoing and incoming traffic.
 *
 * @module
 */

import type { Log } from "../../base/log/log.ts";
import type { Rollback } from "../../cni/call/rollback.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { createIfb, deleteIfb, type IfbContext } from "./ifb.ts";
import { limitLink, type LinkLimit, unlimitLink } from "./limit_link.ts";
import type { Limits } from "./limits.ts";
import { deleteIngress, endRedirect, redirect } from "./redirect.ts";
import { bucketOf, isSmallerThanFrame } from "./token_bucket.ts";

/** A veth pair with an existing host end. */
export interface VethPair extends IfbContext {
  /** The host's end. */
  readonly end: Link;
}

/** The limits of both directions, in the kernel's terms. */
export interface Directions {
  /** Towards the container: traffic that the host's end sends. */
  readonly ingress: LinkLimit | undefined;
  /** Out of the container: traffic that the IFB sends. */
  readonly egress: LinkLimit | undefined;
}

/** Computes the limits of a veth pair's directions. */
export function directionsOf(
  { ingress, egress, scope }: Limits,
  { mtu }: Pick<Link, "mtu">,
): Directions {
  return {
    ingress: ingress &&
      { bucket: bucketOf(ingress, mtu), scope, remote: "source" },
    egress: egress &&
      { bucket: bucketOf(egress, mtu), scope, remote: "destination" },
  };
}

/**
 * Warns of bursts smaller than a full-size packet: a single bucket drops such
 * packets.
 */
export function warnOfSmallBursts(
  log: Log,
  directions: Directions,
  { mtu }: Pick<Link, "mtu">,
): void {
  for (const direction of ["ingress", "egress"] as const) {
    const limit = directions[direction];
    if (limit === undefined || limit.scope !== undefined) continue;
    if (!isSmallerThanFrame(limit.bucket, mtu)) continue;
    log.warn(
      `The ${direction} burst is smaller than a full-size packet, which cannot pass`,
      { burstBytes: limit.bucket.sizeBytes, mtu },
    );
  }
}

/** Limits traffic to the container. */
export function limitIngress(
  { host, end }: VethPair,
  limit: LinkLimit,
  rollback: Rollback,
): void {
  const traffic = new TrafficControl(host.socket);
  rollback.onFailure(`remove the limit of "${end.name}"`, () => {
    unlimitLink(traffic, end.index);
  });
  limitLink(traffic, end, limit);
}

/** Length in packets of queues without a limit in bytes, as on most links. */
const DEFAULT_QUEUE_LENGTH = 1000;

/**
 * Limits traffic from the container. The redirection comes last, when the IFB
 * has its queue.
 *
 * @returns The IFB
 */
export function limitEgress(
  pair: VethPair,
  limit: LinkLimit,
  rollback: Rollback,
): Link {
  const { host, end } = pair;
  const traffic = new TrafficControl(host.socket);
  rollback.onFailure("delete the IFB", () => deleteIfb(pair));
  const ifb = createIfb(pair, {
    mtu: end.mtu,
    transmitQueueLength: limit.scope === undefined ? 0 : DEFAULT_QUEUE_LENGTH,
  });
  limitLink(traffic, ifb, limit);
  redirect(traffic, end, ifb, rollback);
  return ifb;
}

/**
 * Ends the limits on the host's end, if it still exists.
 *
 * @param ifb The attachment's IFB, if it still exists
 * @param isOwn Reports whether an end without a redirection to the IFB is the
 *   attachment's
 */
export function endLimits(
  { host, end }: IfbContext,
  ifb: Link | undefined,
  isOwn: (end: Link) => boolean,
): void {
  if (end === undefined) return;
  const traffic = new TrafficControl(host.socket);
  try {
    const { isEnded, left } = endRedirect(traffic, end.index, ifb?.index);
    if (!isEnded && !isOwn(end)) return;
    if (left === 0) deleteIngress(traffic, end.index);
    unlimitLink(traffic, end.index);
  } catch (error) {
    if (!isErrno(error, "ENODEV")) throw error;
  }
}
