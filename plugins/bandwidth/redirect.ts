/**
 * Redirects a link's incoming traffic to another link, which queues it: the
 * kernel has no queue for incoming traffic.
 *
 * @module
 */

import type { Rollback } from "../../cni/rollback.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import {
  handleOf,
  Parent,
  type TrafficControl,
} from "../../ffi/rtnl/traffic_control.ts";
import {
  type Filter,
  MATCH_ALL,
  Protocol,
} from "../../ffi/rtnl/traffic_control_filter.ts";
import type { Qdisc } from "../../ffi/rtnl/traffic_control_qdisc.ts";

/**
 * Handle of ingress qdiscs. Source: include/uapi/linux/pkt_sched.h
 * `TC_H_INGRESS`.
 */
const INGRESS_HANDLE = handleOf(0xffff);
/** Class of the Go plugin's filter; it does not exist. */
const CLASS = handleOf(1, 1);
/**
 * Priority of the filter: first in our own qdisc, like the Go plugin's; last in
 * another program's, so that its filters are not bypassed.
 */
const FIRST = 1, LAST = 0xffff;

/**
 * Redirects all incoming traffic of a link. Uses an existing qdisc.
 *
 * @throws {Error} If the kernel refuses
 */
export function redirect(
  traffic: TrafficControl,
  from: Link,
  to: Link,
  rollback: Rollback,
): void {
  const existing = traffic.qdisc.find(from.index, Parent.Ingress);
  rollback.onFailure(`end the redirection from "${from.name}"`, () => {
    endRedirect(traffic, from.index, to.index);
    if (existing === undefined) deleteIdleIngress(traffic, from.index);
  });
  try {
    const place = existing === undefined
      ? addIngress(traffic, from.index)
      : findPlace(traffic, existing, to.index);
    traffic.filter.add({
      ifindex: from.index,
      ...place,
      protocol: Protocol.All,
      keys: MATCH_ALL,
      classId: CLASS,
      redirectTo: to.index,
    });
  } catch (error) {
    throw new Error(`Cannot redirect from "${from.name}" to "${to.name}"`, {
      cause: error,
    });
  }
}

/** Position of the filter. */
type FilterPlace = Pick<Filter, "parent" | "priority">;

const ALONE: FilterPlace = { parent: INGRESS_HANDLE, priority: FIRST };

function addIngress(traffic: TrafficControl, ifindex: number): FilterPlace {
  traffic.qdisc.add({
    ifindex,
    parent: Parent.Ingress,
    handle: INGRESS_HANDLE,
    kind: "ingress",
  });
  return ALONE;
}

/**
 * Finds the filter's position in an existing qdisc. Removes the filter of an
 * unfinished ADD.
 */
function findPlace(
  traffic: TrafficControl,
  { kind, ifindex }: Qdisc,
  to: number,
): FilterPlace {
  endRedirect(traffic, ifindex, to);
  if (kind === "clsact") {
    return { parent: Parent.ClsactIngress, priority: LAST };
  }
  const isAlone = listIngress(traffic, ifindex).length === 0;
  return isAlone ? ALONE : { ...ALONE, priority: LAST };
}

/**
 * Ends the redirection to a link, and redirections to deleted links.
 *
 * @param to Undefined if the link does not exist
 * @returns Whether there was a redirection to the link itself
 */
export function endRedirect(
  traffic: TrafficControl,
  ifindex: number,
  to: number | undefined,
): boolean {
  const filters = listIngress(traffic, ifindex);
  const ours = filters.filter((filter) => isOurs(filter, to));
  for (const priority of [FIRST, LAST]) {
    const [first, ...more] = ours.filter((one) => one.priority === priority);
    if (first === undefined) continue;
    const isAll = filters.every((one) =>
      one.priority !== priority || ours.includes(one)
    );
    if (isAll) traffic.filter.delPriority(first);
    else for (const filter of [first, ...more]) traffic.filter.del(filter);
  }
  return ours.some(({ redirectTo }) => redirectTo === to);
}

/** Deletes the qdisc for incoming traffic if it has no filters. */
export function deleteIdleIngress(
  traffic: TrafficControl,
  ifindex: number,
): void {
  const { kind } = traffic.qdisc.find(ifindex, Parent.Ingress) ?? {};
  if (kind !== "ingress" || listIngress(traffic, ifindex).length > 0) return;
  traffic.qdisc.del(ifindex, Parent.Ingress);
}

/** Reports whether all incoming traffic of a link is redirected to another. */
export function isRedirected(
  traffic: TrafficControl,
  from: number,
  to: number,
): boolean {
  return listIngress(traffic, from).some(({ redirectTo, protocol, keys }) =>
    redirectTo === to && protocol === Protocol.All &&
    keys.every(({ mask }) => mask === 0)
  );
}

/** The kernel's index of a deleted link. */
const GONE = 0;

/** Lists the filters of incoming traffic, for either kind of qdisc. */
function listIngress(traffic: TrafficControl, ifindex: number): Filter[] {
  return traffic.filter.list(ifindex, Parent.ClsactIngress);
}

function isOurs(
  { kind, priority, redirectTo }: Filter,
  to: number | undefined,
): boolean {
  return kind === "u32" && (priority === FIRST || priority === LAST) &&
    redirectTo !== undefined && (redirectTo === to || redirectTo === GONE);
}
