/**
 * Limits a link's outgoing traffic: with a single token bucket, or with classes if
 * only a part of the traffic is limited.
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
import type { TrafficScope } from "./limits.ts";
import {
  type Bucket,
  frameBytes,
  mayBeCutOff,
  withExactBurst,
} from "./token_bucket.ts";

/** The limit of a link. */
export interface LinkLimit {
  /** The rate and burst. */
  readonly bucket: Bucket;
  /** The limited traffic; undefined if all traffic is limited. */
  readonly scope: TrafficScope | undefined;
  /** Which address of a packet belongs to the remote end, from the container's view. */
  readonly remote: "source" | "destination";
}

/**
 * Handle of the root qdisc, which the Go plugin uses as well, so that each plugin
 * finds the other plugin's limit.
 */
const ROOT_HANDLE = handleOf(1);
/** Classes of the Go plugin 1.5. */
const SHAPED = 48, UNSHAPED = 1;

/** Unlimited traffic: an unreachable rate, and the size of its queue. */
const UNSHAPED_BYTES_PER_SECOND = 100e9, UNSHAPED_QUEUE_BYTES = 16 << 20;
/** A millisecond; without a buffer, the kernel would pause after each packet. */
const UNSHAPED_BUFFER_TICKS = 15_625;
/**
 * The kernel warns about larger quantums, because classes would wait for each other.
 */
const MAX_QUANTUM_BYTES = 200_000;

/** A priority for each protocol, as in the Go plugin. */
const FILTERS: Readonly<
  Record<IpFamily, Pick<NewFilter, "priority" | "protocol">>
> = {
  4: { priority: 16, protocol: Protocol.Ipv4 },
  6: { priority: 15, protocol: Protocol.Ipv6 },
};

/**
 * Limits a link's outgoing traffic, and replaces an earlier limit.
 *
 * @throws {Error} If the link has a different program's qdisc, or the kernel refuses
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

/** Adds the root qdisc, and replaces a limit of an interrupted ADD. */
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
 * Sets the burst in bytes if the kernel truncates its ticks. Ticks are the default,
 * because the Go plugin uses them and compares them in CHECK.
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
 * @returns Whether the link had a limit
 */
export function unlimitLink(traffic: TrafficControl, ifindex: number): boolean {
  const root = traffic.qdisc.find(ifindex, Parent.Root);
  if (root === undefined || !isOurs(traffic, root)) return false;
  traffic.qdisc.del(ifindex, Parent.Root);
  return true;
}

/**
 * Reports whether a root qdisc is a limit. A different program's htb can have the
 * same handle, but has different classes.
 */
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

/**
 * Lists the classes' queues. The kernel's default queue might hold less than a
 * packet, or seconds of traffic.
 */
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
