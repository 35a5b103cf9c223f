/**
 * Limiting what a link sends: one token bucket, or one among classes where not
 * all traffic is limited.
 *
 * ```
 *   1: tbf               1: htb ─┬─ 1:48  rate and burst of the limit ── bfifo
 *                                └─ 1:1   100 GB/s ── bfifo
 * ```
 *
 * @module
 */

import { isErrno } from "../../ffi/errno.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import {
  handleOf,
  Parent,
  type TrafficControl,
} from "../../ffi/rtnl/traffic_control.ts";
import {
  matchNetwork,
  type NewFilter,
  Protocol,
} from "../../ffi/rtnl/traffic_control_filter.ts";
import type { HtbClass } from "../../ffi/rtnl/traffic_control_class.ts";
import type {
  NewQdisc,
  Qdisc,
  QdiscSettings,
} from "../../ffi/rtnl/traffic_control_qdisc.ts";
import type { IpFamily } from "../../net/ip.ts";
import type { Scope } from "./limits.ts";
import {
  type Bucket,
  frameBytes,
  mayBeCutOff,
  withExactBurst,
} from "./token_bucket.ts";

/** How a link is limited. */
export interface LinkLimit {
  /** What may pass. */
  readonly bucket: Bucket;
  /** Undefined if it is all traffic. */
  readonly scope: Scope | undefined;
  /** Which of a packet's addresses is the one of the container's correspondent. */
  readonly remote: "source" | "destination";
}

/** Of the root qdisc, as the Go plugin has it; so either finds the other's. */
const ROOT_HANDLE = handleOf(1);
/** Classes as the Go plugin had them in 1.5. */
const SHAPED = 48, UNSHAPED = 1;

/** Without limit: a rate that nothing reaches, and bytes that may wait. */
const UNSHAPED_BYTES_PER_SECOND = 100e9, UNSHAPED_QUEUE_BYTES = 16 << 20;
/** A millisecond; without tokens in advance the kernel would pause after each packet. */
const UNSHAPED_BUFFER_TICKS = 15_625;
/** What the kernel takes for large, so that classes would wait for each other. */
const MAX_QUANTUM_BYTES = 200_000;

/** Filters of one priority have one protocol. The priorities are the Go plugin's. */
const FILTERS: Readonly<
  Record<IpFamily, Pick<NewFilter, "priority" | "protocol">>
> = {
  4: { priority: 16, protocol: Protocol.Ipv4 },
  6: { priority: 15, protocol: Protocol.Ipv6 },
};

/**
 * Limits what a link sends, in place of an earlier limit.
 *
 * @throws {Error} If somebody else has a qdisc there, or the kernel refuses
 */
export function limitLink(
  traffic: TrafficControl,
  link: Link,
  limit: LinkLimit,
): void {
  const ifindex = link.index;
  try {
    addRoot(traffic, { ...rootOf(limit), ...placeOfRoot(ifindex) });
    if (limit.scope === undefined) ensureWholeBurst(traffic, ifindex, limit);
    for (const one of classesOf(link, limit)) traffic.class.add(one);
    for (const one of leavesOf(link, limit)) traffic.qdisc.add(one);
    for (const one of filtersOf(link, limit)) traffic.filter.add(one);
  } catch (error) {
    throw new Error(`Cannot limit "${link.name}"`, { cause: error });
  }
}

/** An earlier limit was left by an ADD that was not finished. */
function addRoot(traffic: TrafficControl, root: NewQdisc): void {
  try {
    traffic.qdisc.add(root);
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
    if (!unlimitLink(traffic, root.ifindex)) throw error;
    traffic.qdisc.add(root);
  }
}

/**
 * Ticks are what the Go plugin sends, and what its CHECK compares. Where the
 * kernel cuts them off it is given bytes.
 */
function ensureWholeBurst(
  traffic: TrafficControl,
  ifindex: number,
  { bucket }: LinkLimit,
): void {
  if (!mayBeCutOff(bucket)) return;
  const root = traffic.qdisc.find(ifindex, Parent.Root);
  if (root?.bucket?.bufferTicks === bucket.bufferTicks) return;
  traffic.qdisc.replace({
    kind: "tbf",
    bucket: withExactBurst(bucket),
    ...placeOfRoot(ifindex),
  });
}

function placeOfRoot(
  ifindex: number,
): Required<Pick<NewQdisc, "ifindex" | "parent" | "handle">> {
  return { ifindex, parent: Parent.Root, handle: ROOT_HANDLE };
}

/**
 * Ends the limit of a link.
 *
 * @returns Whether it had one
 */
export function unlimitLink(traffic: TrafficControl, ifindex: number): boolean {
  const root = traffic.qdisc.find(ifindex, Parent.Root);
  if (root === undefined || !isOurs(traffic, root)) return false;
  traffic.qdisc.del(ifindex, Parent.Root);
  return true;
}

/** Others like the handle 1: for an htb, too, but have classes of their own there. */
function isOurs(
  traffic: TrafficControl,
  { ifindex, handle, kind }: Qdisc,
): boolean {
  if (handle !== ROOT_HANDLE) return false;
  if (kind !== "htb") return kind === "tbf";
  const classes = [handleOf(1, SHAPED), handleOf(1, UNSHAPED)];
  return traffic.class.list(ifindex).every(({ handle }) =>
    classes.includes(handle)
  );
}

/** Returns the root qdisc of a limit. */
export function rootOf({ bucket, scope }: LinkLimit): QdiscSettings {
  if (scope === undefined) return { kind: "tbf", bucket };
  return { kind: "htb", defaultClass: scope.isShaped ? UNSHAPED : SHAPED };
}

/** Lists the classes of a limit. */
export function classesOf(
  { index, mtu }: Pick<Link, "index" | "mtu">,
  { bucket, scope }: LinkLimit,
): HtbClass[] {
  if (scope === undefined) return [];
  const { bytesPerSecond, bufferTicks } = bucket;
  return [
    {
      ifindex: index,
      parent: ROOT_HANDLE,
      handle: handleOf(1, SHAPED),
      bytesPerSecond,
      bufferTicks,
      quantumBytes: frameBytes(mtu),
    },
    {
      ifindex: index,
      parent: ROOT_HANDLE,
      handle: handleOf(1, UNSHAPED),
      bytesPerSecond: UNSHAPED_BYTES_PER_SECOND,
      bufferTicks: UNSHAPED_BUFFER_TICKS,
      quantumBytes: MAX_QUANTUM_BYTES,
    },
  ];
}

/** Queues of their own: the kernel's choice may have room for no packet at all, or for seconds of them. */
function leavesOf(
  { index: ifindex }: Link,
  { bucket, scope }: LinkLimit,
): NewQdisc[] {
  if (scope === undefined) return [];
  const queues = {
    [SHAPED]: bucket.limitBytes,
    [UNSHAPED]: UNSHAPED_QUEUE_BYTES,
  };
  return Object.entries(queues).map(([minor, limitBytes]) => ({
    ifindex,
    parent: handleOf(1, Number(minor)),
    kind: "bfifo",
    limitBytes,
  }));
}

/** Lists the filters of a limit. */
export function filtersOf(
  { index: ifindex }: Pick<Link, "index">,
  { scope, remote }: LinkLimit,
): NewFilter[] {
  if (scope === undefined) return [];
  const classId = handleOf(1, scope.isShaped ? SHAPED : UNSHAPED);
  return scope.networks.map((network) => ({
    ifindex,
    parent: ROOT_HANDLE,
    ...FILTERS[network.family],
    keys: matchNetwork(network, remote),
    classId,
  }));
}
