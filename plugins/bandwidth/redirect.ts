/**
 * Redirecting what a link receives to another link, which queues it: the kernel
 * has no queue for what comes in.
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

/** Of qdiscs for what comes in. Source: include/uapi/linux/pkt_sched.h `TC_H_INGRESS`. */
const INGRESS_HANDLE = handleOf(0xffff);
/** The class that the Go plugin's filter names; there is none. */
const CLASS = handleOf(1, 1);
/**
 * Before all, as the Go plugin's, where the qdisc is ours; after all where it is
 * another program's: what that lets pass, counts or drops is then not bypassed.
 */
const FIRST = 1, LAST = 0xffff;

/**
 * Redirects all that a link receives. A qdisc that is there is used.
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

/** Where the filter goes. */
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

/** What is left of an ADD that was not finished is replaced. */
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
 * Ends the redirection to a link, and those to links that are gone.
 *
 * @param to Undefined if that is gone
 * @returns Whether there was one to the link itself
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

/** Deletes the qdisc for what a link receives if it is one that does nothing. */
export function deleteIdleIngress(
  traffic: TrafficControl,
  ifindex: number,
): void {
  const { kind } = traffic.qdisc.find(ifindex, Parent.Ingress) ?? {};
  if (kind !== "ingress" || listIngress(traffic, ifindex).length > 0) return;
  traffic.qdisc.del(ifindex, Parent.Ingress);
}

/** Says whether all that a link receives is redirected to another. */
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

/** The kernel's index of a link that does not exist any more. */
const GONE = 0;

/** Lists the filters of what a link receives, whichever kind the qdisc has. */
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
