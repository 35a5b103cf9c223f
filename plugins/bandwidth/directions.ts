/**
 * Both directions of a link: its outgoing and incoming traffic. The link is the
 * host's end of the container's veth pair, or otherwise the container's interface
 * itself, for which the directions are reversed.
 *
 * @module
 */

import type { Log } from "../../base/log/log.ts";
import type { Rollback } from "../../base/rollback.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { createIfb, deleteIfb, type IfbContext } from "./ifb.ts";
import { limitLink, type LinkLimit, unlimitLink } from "./limit_link.ts";
import type { Limits } from "./limits.ts";
import { deleteIngress, endRedirect, redirect } from "./redirect.ts";
import { bucketOf, isSmallerThanFrame } from "./token_bucket.ts";

/** A link to limit. */
export interface LimitedLink extends IfbContext {
  /** The link. */
  readonly end: Link;
}

/** The limits of both directions, as kernel values. */
export interface Directions {
  /** Traffic that the link sends. */
  readonly sent: LinkLimit | undefined;
  /** Traffic that the link receives, and its IFB sends. */
  readonly received: LinkLimit | undefined;
}

/** Computes the limits of a link's directions. */
export function directionsOf(
  { ingress, egress, scope }: Limits,
  { end: { mtu }, isInside }: Pick<LimitedLink, "end" | "isInside">,
): Directions {
  const toContainer = ingress &&
    { bucket: bucketOf(ingress, mtu), scope, remote: "source" } as const;
  const fromContainer = egress &&
    { bucket: bucketOf(egress, mtu), scope, remote: "destination" } as const;
  return isInside
    ? { sent: fromContainer, received: toContainer }
    : { sent: toContainer, received: fromContainer };
}

/**
 * Logs a warning for bursts smaller than a full-size packet, because a single bucket
 * drops such packets.
 */
export function warnOfSmallBursts(
  log: Log,
  directions: Directions,
  { mtu }: Pick<Link, "mtu">,
): void {
  for (const limit of Object.values(directions)) {
    if (limit === undefined || limit.scope !== undefined) continue;
    if (!isSmallerThanFrame(limit.bucket, mtu)) continue;
    const direction = limit.remote === "source" ? "ingress" : "egress";
    log.warn(
      `The ${direction} burst is smaller than a full-size packet, which cannot pass`,
      { burstBytes: limit.bucket.sizeBytes, mtu },
    );
  }
}

/** Limits traffic that the link sends. */
export function limitSent(
  { host, end }: LimitedLink,
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
 * Limits traffic that the link receives. The redirection is added last, when the IFB
 * has its queue.
 *
 * @returns The IFB
 */
export function limitReceived(
  pair: LimitedLink,
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
 * Ends the limits on the link, if it still exists.
 *
 * @param ifb The attachment's IFB, if it still exists
 * @param isOwn Reports whether a link without a redirection to the IFB belongs to the
 * attachment
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
