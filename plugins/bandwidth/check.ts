/**
 * CHECK of both directions.
 *
 * @module
 */

import { Differences } from "../../cni/call/differences.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import type { HtbClass } from "../../ffi/rtnl/traffic_control_class.ts";
import type {
  Filter,
  NewFilter,
} from "../../ffi/rtnl/traffic_control_filter.ts";
import type { Qdisc } from "../../ffi/rtnl/traffic_control_qdisc.ts";
import {
  checkFailure,
  linkDifference,
  throwDifferences,
} from "../parts/link/check_link.ts";
import type { Directions, LimitedLink } from "./directions.ts";
import { findIfb } from "./ifb.ts";
import { classesOf, filtersOf, type LinkLimit, rootOf } from "./limit_link.ts";
import { isRedirected } from "./redirect.ts";
import { listBucketProblems } from "./token_bucket.ts";

/**
 * Checks that traffic that the link sends and receives is limited.
 *
 * @throws {CniError} 999 with all differences
 */
export async function checkLimits(
  link: LimitedLink,
  { sent, received }: Directions,
): Promise<void> {
  const differences = new Differences();
  if (sent !== undefined) {
    const traffic = new TrafficControl(link.host.socket);
    await differences.collect(() => checkLimit(traffic, link.end, sent));
  }
  if (received !== undefined) await checkReceived(differences, link, received);
  differences.throwAny();
}

/** Checks the IFB, its queue, and the filter that redirects to it. */
async function checkReceived(
  differences: Differences,
  link: LimitedLink,
  limit: LinkLimit,
): Promise<void> {
  const { host, end } = link;
  const traffic = new TrafficControl(host.socket);
  const ifb = await differences.collect(() => getIfb(link));
  if (ifb === undefined) return;
  if (!ifb.isUp) {
    differences.add(linkDifference(host, ifb, "is down", { isUp: true }));
  }
  await differences.collect(() => checkLimit(traffic, ifb, limit));
  await differences.collect(() => {
    if (isRedirected(traffic, end.index, ifb.index)) return;
    throw checkFailure(
      `"${end.name}" does not redirect to "${ifb.name}"`,
    );
  });
}

function getIfb(link: LimitedLink): Link {
  const ifb = findIfb(link);
  if (ifb !== undefined) return ifb;
  const name = link.identity.sharedName;
  throw checkFailure(`get ifb device: "${name}" no longer exists`);
}

function checkLimit(
  traffic: TrafficControl,
  link: Link,
  limit: LinkLimit,
): void {
  const root = traffic.qdisc.find(link.index, Parent.Root);
  const { kind } = rootOf(limit);
  // Classes and filters depend on the qdisc.
  const problems = root?.kind === kind
    ? [
      ...listRootProblems(root, limit),
      ...listClassProblems(traffic, link, limit),
      ...listFilterProblems(traffic, link, limit),
    ]
    : [`Failed to find qdisc: there is no ${kind}`];
  throwDifferences(
    problems.map((problem) => ({ msg: `${problem} on "${link.name}"` })),
  );
}

function listRootProblems(root: Qdisc, limit: LinkLimit): string[] {
  const wanted = rootOf(limit);
  const hasDefault = wanted.kind !== "htb" ||
    wanted.defaultClass === root.defaultClass;
  return [
    ...hasDefault ? [] : ["Default class doesn't match"],
    ...root.bucket ? listBucketProblems(limit.bucket, root.bucket) : [],
  ];
}

function listClassProblems(
  traffic: TrafficControl,
  link: Link,
  limit: LinkLimit,
): string[] {
  const wanted = classesOf(link, limit);
  if (wanted.length === 0) return [];
  const actual = traffic.class.list(link.index);
  const isThere = (one: HtbClass): boolean =>
    actual.some(({ handle, bytesPerSecond, bufferTicks }) =>
      handle === one.handle && bytesPerSecond === one.bytesPerSecond &&
      bufferTicks === one.bufferTicks
    );
  return wanted.every(isThere) ? [] : ["Class doesn't match"];
}

function listFilterProblems(
  traffic: TrafficControl,
  link: Link,
  limit: LinkLimit,
): string[] {
  const wanted = filtersOf(link, limit);
  const [first] = wanted;
  if (first === undefined) return [];
  const actual = traffic.filter.list(link.index, first.parent);
  const isThere = (one: NewFilter): boolean =>
    actual.some((other) => isSameFilter(one, other));
  return wanted.every(isThere) ? [] : ["Filter doesn't match"];
}

function isSameFilter(wanted: NewFilter, actual: Filter): boolean {
  const { keys, classId, protocol } = wanted;
  return classId === actual.classId && protocol === actual.protocol &&
    JSON.stringify(keys) === JSON.stringify(actual.keys);
}
