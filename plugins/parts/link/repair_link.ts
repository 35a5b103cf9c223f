/**
 * REPAIR: restores an interface according to a result.
 *
 * @module
 */

import type { Call, RepairScope } from "../../../cni/plugin.ts";
import type { Result } from "../../../cni/result/result.ts";
import { withoutLearned } from "../../../cni/result/learned.ts";
import type { SyscallError } from "../../../ffi/errno.ts";
import { Scope } from "../../../ffi/rtnl/constants.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Route } from "../../../ffi/rtnl/route.ts";
import type { Cidr } from "../../../net/cidr.ts";
import { enableIpv6 } from "../address/ipv6.ts";
import { ownPartOf } from "../sandbox/prev_result.ts";
import { openSandbox } from "../sandbox/sandbox.ts";
import { listMissingRoutes } from "./check_link.ts";
import {
  addingAddress,
  addingRoute,
  bringingUp,
  kernelRoutesOf,
  listAddresses,
  makeChanges,
} from "./configure_link.ts";
import { findHostEnd } from "./host_end.ts";

/** The expected state of an interface after ADD. */
export interface WantedLink {
  readonly addresses: readonly Cidr[];
  /** Whether the kernel adds no routes to the addresses' subnets. */
  readonly noPrefixRoute: boolean;
  readonly routes: readonly Route[];
}

/**
 * Finds both ends of an attachment's veth pair; undefined if an end is missing. The
 * container might have given the interface's name to an interface of a different
 * attachment, whose host's end is not in the result.
 */
export function findVethPair(
  host: Rtnl,
  sandbox: Rtnl,
  { interfaces }: Result,
  ifName: string,
): { readonly container: Link; readonly end: Link } | undefined {
  const container = sandbox.link.find(ifName);
  const end = findHostEnd(host, sandbox, container);
  if (container === undefined || end === undefined) return undefined;
  const isListed = interfaces.some(({ name, sandbox }) =>
    name === end.name && !sandbox
  );
  return isListed ? { container, end } : undefined;
}

/** Lists the addresses that a link lacks. */
export function listMissingAddresses(
  netns: Rtnl,
  link: Link,
  addresses: readonly Cidr[],
): Cidr[] {
  const present = listAddresses(netns, link);
  return addresses.filter((wanted) =>
    !present.some(({ address }) => address.equals(wanted))
  );
}

/**
 * Brings an interface of the sandbox up, and adds missing addresses and routes.
 *
 * @throws {Error} If the kernel refuses
 */
export function repairLink(
  sandbox: Rtnl,
  link: Link,
  { addresses, noPrefixRoute, routes }: WantedLink,
): void {
  if (addresses.some(({ family }) => family === 6)) {
    enableIpv6(sandbox.netns, link.name);
  }
  makeChanges(sandbox, [
    ...listMissingAddresses(sandbox, link, addresses).map((address) =>
      addingAddress(sandbox, link, { address, noPrefixRoute })
    ),
    ...link.isUp ? [] : [bringingUp(sandbox, link)],
  ]);
  const table = findVrfTable(sandbox, link);
  const missing = listMissingRoutes(sandbox, link, routes, "any")
    .map((route) => ({ ...route, table: route.table ?? table }));
  makeChanges(
    sandbox,
    missing.map((route) => ({
      ...addingRoute(sandbox, link, route),
      recover: (refusal) => addInstead(sandbox, link, route, refusal),
    })),
  );
}

/**
 * Finds the table in which the kernel looks up packets that leave through a VRF port.
 */
function findVrfTable(
  { link: links }: Rtnl,
  { masterIndex }: Link,
): number | undefined {
  const data = masterIndex === undefined
    ? undefined
    : links.find(masterIndex)?.data;
  return data?.kind === "vrf" ? data.table : undefined;
}

/**
 * Replaces a route that lost its source, because the kernel deletes the source with
 * its address.
 */
function addInstead(
  { route: routes }: Rtnl,
  { index: ifindex }: Link,
  route: Route,
  refusal: SyscallError,
): void {
  if (refusal.errno !== "EEXIST") throw refusal;
  routes.del({ ...route, preferredSource: undefined, ifindex });
  routes.prepend({ ...route, ifindex });
}

/**
 * Describes an interface that has neighbours on its link, from its part of a result.
 */
export function wantedLinkOf(result: Result): WantedLink {
  const { ips, routes } = withoutLearned(result);
  const addresses = ips.map(({ address }) => address);
  const subnets = addresses
    .filter(({ ip, prefixLength }) => prefixLength < ip.bitLength)
    .map((address) => ({
      destination: address.masked(),
      scope: Scope.Link,
      ...address.family === 4 && { preferredSource: address.ip },
    }));
  return {
    addresses,
    noPrefixRoute: false,
    routes: [...subnets, ...kernelRoutesOf({ ips, routes })],
  };
}

/** REPAIR of plugins that change nothing on the host. */
export function repairInSandbox(call: Call, { sandbox }: RepairScope): void {
  const { args, prevResult } = call;
  if (!sandbox || prevResult === undefined) return;
  using netns = openSandbox(args);
  const link = netns.link.find(args.ifName);
  if (link === undefined) return;
  repairLink(netns, link, wantedLinkOf(ownPartOf(prevResult, args)));
}
