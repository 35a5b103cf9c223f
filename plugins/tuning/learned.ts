/**
 * Addresses and routes that the kernel learned from router advertisements before ADD
 * disabled them.
 *
 * @module
 */

import { isErrno } from "../../ffi/errno.ts";
import type { Address } from "../../ffi/rtnl/address.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { listAddresses, withAction } from "../parts/link/configure_link.ts";

/** The parts of advertisements that the kernel ignores if a parameter is 0. */
interface Ignored {
  /** Whether addresses are ignored. */
  readonly addresses?: boolean;
  /** Whether prefixes on the link are ignored. */
  readonly prefixes?: boolean;
  /** Whether routers are ignored: as default routers, or also for specific routes. */
  readonly routers?: "default" | "all";
}

/** Parameters below net/ipv6/conf/IFNAME. Source: Documentation/networking/ip-sysctl.rst. */
const IGNORING: Readonly<Record<string, Ignored>> = {
  accept_ra: { addresses: true, prefixes: true, routers: "all" },
  accept_ra_pinfo: { addresses: true, prefixes: true },
  accept_ra_defrtr: { routers: "default" },
  autoconf: { addresses: true },
};

/**
 * Deletes the addresses and routes that the kernel ignores with a parameter of 0.
 * Otherwise, the effects of advertisements since the link came up would stay.
 *
 * @param parameter The parameter below net/ipv6/conf/IFNAME, such as `accept_ra`
 * @throws {Error} If the kernel refuses
 */
export function forgetLearned(
  sandbox: Rtnl,
  ifName: string,
  parameter: string,
): void {
  const ignored = IGNORING[parameter];
  const link = sandbox.link.find(ifName);
  if (ignored === undefined || link === undefined) return;
  const { addresses, prefixes, routers } = ignored;
  const all = listAddresses(sandbox, link)
    .filter(({ address }) => address.family === 6);
  const derived = all.filter(isDerived);
  const lasting = all.filter((one) => !derived.includes(one));
  const isLearned = (route: RouteEntry): boolean => {
    const { origin, destination, isDefault, isUnicast } = route;
    if (!isUnicast || route.family !== 6 || !route.isOnlyOver(link.index)) {
      return false;
    }
    if (origin === "router") {
      return routers === "all" || routers === "default" && isDefault;
    }
    // The kernel also adds a route for each subnet of an address.
    return prefixes === true && origin === "kernel" &&
      !destination.ip.isLinkLocal && !destination.ip.isMulticast &&
      !lasting.some(({ address }) => address.masked().equals(destination));
  };
  if (addresses) {
    for (const { address } of derived) {
      deleteIfThere(
        `address ${address} of "${ifName}"`,
        () => sandbox.address.del(link.index, address),
      );
    }
  }
  for (const route of sandbox.route.listEntries().filter(isLearned)) {
    deleteIfThere(
      `route ${route.destination} of "${ifName}"`,
      () => sandbox.route.delEntry(route),
    );
  }
}

/**
 * Reports whether the kernel derived an address from a router's prefix. An address
 * from a DHCPv6 lease also has a lifetime.
 */
function isDerived(
  { isPermanent, isTemporary, makesTemporary }: Address,
): boolean {
  return !isPermanent && (isTemporary || makesTemporary);
}

/** Deletes an object that might have expired, or been deleted with its address. */
function deleteIfThere(what: string, work: () => void): void {
  withAction(`delete ${what}`, () => {
    try {
      work();
    } catch (error) {
      if (!isErrno(error, "EADDRNOTAVAIL", "ESRCH")) throw error;
    }
  });
}
