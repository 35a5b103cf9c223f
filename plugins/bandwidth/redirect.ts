/**
 * Redirects a link's incoming traffic to another link, which queues it, because the
 * kernel has no queue for incoming traffic.
 *
 * @module
 */

import type { Rollback } from "../../base/rollback.ts";
import { isErrno } from "../../ffi/errno.ts";
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
 * Priority of the filter: first in our own qdisc, as in the Go plugin; last in a
 * different program's qdisc, so that its filters are not bypassed.
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
  let existing: Qdisc | undefined;
  rollback.onFailure(`remove the redirection from "${from.name}"`, () => {
    const { left } = endRedirect(traffic, from.index, to.index);
    const isOurs = existing === undefined && left === 0;
    if (isOurs) deleteIngress(traffic, from.index);
  });
  try {
    existing = addIngress(traffic, from.index);
    const place = existing === undefined
      ? ALONE
      : clearPlace(traffic, existing, to.index);
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

/** Adds the qdisc for incoming traffic, or returns the existing one. */
function addIngress(
  traffic: TrafficControl,
  ifindex: number,
): Qdisc | undefined {
  const parent = Parent.Ingress;
  try {
    traffic.qdisc.add({
      ifindex,
      parent,
      handle: INGRESS_HANDLE,
      kind: "ingress",
    });
    return undefined;
  } catch (error) {
    const existing = traffic.qdisc.find(ifindex, parent);
    if (!isErrno(error, "EEXIST") || existing === undefined) throw error;
    return existing;
  }
}

/**
 * Finds the filter's position in an existing qdisc. Removes the filter of an
 * interrupted ADD.
 */
function clearPlace(
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
 * @returns Whether there was a redirection to the link itself, and how many filters
 * remain
 */
export function endRedirect(
  traffic: TrafficControl,
  ifindex: number,
  to: number | undefined,
): { readonly isEnded: boolean; readonly left: number } {
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
  return {
    isEnded: ours.some(({ redirectTo }) => redirectTo === to),
    left: filters.length - ours.length,
  };
}

/** Deletes the qdisc for incoming traffic. It must have no filters. */
export function deleteIngress(
  traffic: TrafficControl,
  ifindex: number,
): void {
  const { kind } = traffic.qdisc.find(ifindex, Parent.Ingress) ?? {};
  if (kind === "ingress") traffic.qdisc.del(ifindex, Parent.Ingress);
}

/** Reports whether all incoming traffic of a link is redirected to another link. */
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

/** The kernel reports this index for a deleted link. */
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
