/**
 * Moves an interface into a VRF, and out of it.
 *
 * The kernel sets the interface down and up for this, and thereby deletes all of its
 * routes and its IPv6 addresses. With `keep_addr_on_down`, it keeps IPv6 addresses
 * without a lifetime.
 *
 * @module
 */

import { withoutLearned } from "../../cni/result/learned.ts";
import type { Result } from "../../cni/result/result.ts";
import { isErrno } from "../../ffi/errno.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { NewAddress } from "../../ffi/rtnl/address.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import type { Cidr } from "../../net/cidr.ts";
import { kernelRoutesOf, listAddresses } from "../parts/link/configure_link.ts";

/** Addresses and routes that an interface keeps when it moves. */
export interface Configuration {
  readonly link: Pick<Link, "index" | "name">;
  /** The IPv6 addresses to restore: the kernel keeps IPv4 addresses itself. */
  readonly addresses: readonly Omit<NewAddress, "ifindex">[];
  /** The routes of all tables except the kernel's own. */
  readonly routes: readonly RouteEntry[];
  /**
   * The routes that also have next hops over other links, with all next hops.
   */
  readonly split: readonly RouteEntry[];
  /** Subnets whose routes the kernel has added; undefined if unknown. */
  readonly subnets: readonly Cidr[] | undefined;
}

/** Identifies a link. */
type LinkId = Pick<Link, "index">;

/** A change of the master. */
export interface Move {
  /** Index of the VRF, or 0. */
  readonly masterIndex: number;
  /** The table whose routes are moved to the other table. */
  readonly from: number;
  readonly to: number;
}

/**
 * Reads the current configuration of an interface.
 *
 * @throws {Error} If the kernel refuses
 */
export function readConfiguration(sandbox: Rtnl, link: Link): Configuration {
  const all = routesOver(sandbox, link);
  return {
    link,
    // The kernel derives new temporary addresses from the address of a prefix.
    addresses: listAddresses(sandbox, link)
      .filter(({ address, isTemporary }) =>
        address.family === 6 && !isTemporary
      )
      .map(({ address, noPrefixRoute, makesTemporary, lifetime }) => ({
        address,
        noPrefixRoute,
        makesTemporary,
        lifetime,
      })),
    routes: all.filter(({ origin }) => origin === "others"),
    split: unicastRoutes(sandbox).filter((entry) =>
      entry.origin === "others" && entry.over(link.index) !== undefined &&
      !entry.isOnlyOver(link.index)
    ),
    subnets: all.filter(({ origin }) => origin === "kernel")
      .map(({ destination }) => destination),
  };
}

/**
 * Returns the expected configuration of an interface, from its part of a result. The
 * network determines the rest.
 */
export function configurationOf(result: Result, link: Link): Configuration {
  const { index: ifindex } = link;
  const { ips, routes } = withoutLearned(result);
  return {
    link,
    addresses: ips.filter(({ address }) => address.family === 6)
      .map(({ address }) => ({ address, noPrefixRoute: false })),
    routes: kernelRoutesOf({ ips, routes }).map((route) =>
      RouteEntry.of({ ...route, ifindex })
    ),
    split: [],
    subnets: undefined,
  };
}

/** Lists an interface's unicast routes of all tables. */
function routesOver(
  sandbox: Rtnl,
  { index }: { index: number },
): RouteEntry[] {
  return unicastRoutes(sandbox).flatMap((entry) => entry.over(index) ?? []);
}

function unicastRoutes({ route }: Rtnl): RouteEntry[] {
  return route.listEntries()
    .filter(({ isUnicast, table }) => isUnicast && table !== Table.Local);
}

/**
 * Changes the master, and restores the configuration, which is the same as before, in
 * the other table.
 *
 * @returns The addresses and routes that the kernel refuses
 * @throws {Error} If the kernel refuses the master
 */
export function changeMaster(
  sandbox: Rtnl,
  { link, addresses, routes, split, subnets }: Configuration,
  { masterIndex, from, to }: Move,
): Error[] {
  const failures: Error[] = [];
  const attempt = (action: string, work: () => void): void => {
    try {
      work();
    } catch (cause) {
      // The interface might already be deleted.
      if (isErrno(cause, "EEXIST", "ENODEV", "ESRCH")) return;
      failures.push(new Error(`Cannot ${action}`, { cause }));
    }
  };
  try {
    sandbox.link.set(link.index, { masterIndex });
  } catch (cause) {
    throw new Error(`could not change the master of ${link.name}`, { cause });
  }
  const present = listAddresses(sandbox, link);
  for (const wanted of addresses) {
    const { address } = wanted;
    const found = present.find((one) => one.address.equals(address));
    // Duplicate address detection is skipped, because the address passed it before,
    // and routes cannot use a tentative address as their source.
    if (found?.isTentative === false || found && address.ip.isLinkLocal) {
      continue;
    }
    const { index: ifindex } = link;
    attempt(`restore address ${address} of "${link.name}"`, () => {
      if (found !== undefined) sandbox.address.del(ifindex, address);
      if (wanted.lifetime?.valid === 0) return;
      sandbox.address.add({ ...wanted, ifindex });
    });
  }
  const now = routesOver(sandbox, link);
  const extra = now.filter(({ origin, destination }) =>
    origin === "kernel" && !destination.ip.isLinkLocal &&
    subnets?.every((subnet) => !subnet.equals(destination))
  );
  for (const route of extra) {
    attempt(
      `delete route ${route.destination}`,
      () => sandbox.route.delEntry(route),
    );
  }
  const isMoved = from !== to;
  const shared = split.filter(({ table }) => table === from);
  for (const entry of shared) {
    attempt(
      `change the next hops of ${entry.destination} in table ${from}`,
      () => (isMoved ? separate : join)(sandbox, entry, link),
    );
  }
  const joined = isMoved
    ? []
    : shared.flatMap((entry) => entry.over(link.index) ?? []);
  const wanted = routes
    .filter((route) => !joined.some((other) => isSame(route, other)))
    .map((route) => route.table === from ? route.inTable(to) : route)
    // The kernel has deleted the nexthop objects of the link.
    .map((route) => route.onto(link.index));
  // Routes to gateways must precede routes through them.
  const onLink = wanted.filter(({ hasGateway }) => !hasGateway);
  const others = wanted.filter(({ hasGateway }) => hasGateway);
  for (const route of [...onLink, ...others]) {
    if (now.some((other) => isSame(route, other))) continue;
    attempt(
      `restore route ${route.destination} in table ${route.table}`,
      () => sandbox.route.append(route),
    );
  }
  return failures;
}

/**
 * Removes the next hops over a link from a route, which the kernel keeps if the route
 * has further next hops.
 */
function separate(sandbox: Rtnl, entry: RouteEntry, { index }: LinkId): void {
  replace(sandbox, entry, entry.besides(index), () => {
    const own = entry.over(index);
    if (own !== undefined) sandbox.route.delEntry(own);
  });
}

/** Reverts {@linkcode separate}, as far as it was carried out. */
function join(sandbox: Rtnl, entry: RouteEntry, { index }: LinkId): void {
  const present = unicastRoutes(sandbox);
  const isPresent = (one: RouteEntry): boolean =>
    present.some((other) => isSame(one, other));
  const rest = entry.besides(index);
  if (isPresent(entry)) {
    if (rest !== undefined && isPresent(rest)) sandbox.route.delEntry(rest);
    return;
  }
  replace(sandbox, rest, entry, () => {
    const own = entry.over(index);
    if (own !== undefined) sandbox.route.append(own);
  });
}

/**
 * Replaces a route with a route that has different next hops, so that one of the two
 * always exists.
 *
 * @param change Makes the same change where next hops can be changed separately,
 * because the kernel then refuses a second route to the same destination, as for IPv6
 */
function replace(
  { route }: Rtnl,
  old: RouteEntry | undefined,
  next: RouteEntry | undefined,
  change: () => void,
): void {
  try {
    if (next !== undefined) route.append(next);
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
    return change();
  }
  if (old !== undefined) route.delEntry(old);
}

function isSame(one: RouteEntry, other: RouteEntry): boolean {
  return one.table === other.table && one.way === other.way;
}
