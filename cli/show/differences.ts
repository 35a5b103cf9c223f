/**
 * Differences between the cached result of an attachment and the live state.
 *
 * @module
 */

import { isLearned, withoutLearned } from "../../cni/result/learned.ts";
import type { Result } from "../../cni/result/result.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { Address } from "../../ffi/rtnl/address.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Route } from "../../ffi/rtnl/route.ts";

/** The live state of an interface. */
export interface InterfaceState {
  readonly link: Link;
  readonly addresses: readonly Address[];
  /** Routes of all tables by this interface. */
  readonly routes: readonly Route[];
}

/**
 * Describes what of a result is missing or different, and what was added. Addresses
 * and routes that the network gives may be others than those of ADD.
 */
export function listDifferences(
  whole: Result,
  { link, addresses, routes }: InterfaceState,
): string[] {
  const result = withoutLearned(whole);
  const own = result.interfaces.findIndex(({ name, sandbox }) =>
    name === link.name && sandbox
  );
  const wanted = result.interfaces[own];
  const isOfLink = (ip: Result["ips"][number]): boolean =>
    ip.interface === own || ip.interface === undefined;
  const ips = result.ips.filter(isOfLink);
  const isOnly = result.interfaces.filter(({ sandbox }) => sandbox).length <= 1;
  const found: string[] = [];
  const mac = String(link.mac ?? "");
  if (wanted?.mac && wanted.mac.toLowerCase() !== mac) {
    found.push(`MAC ${mac || "none"}, was ${wanted.mac}`);
  }
  if (wanted?.mtu && wanted.mtu !== link.mtu) {
    found.push(`MTU ${link.mtu}, was ${wanted.mtu}`);
  }
  if (!link.isUp && whole.ips.some(isOfLink)) found.push("it is down");
  for (const { address } of ips) {
    if (!addresses.some((live) => live.address.equals(address))) {
      found.push(`lacks address ${address}`);
    }
  }
  const isLearning = whole.ips.some((ip) => isLearned(ip) && isOfLink(ip));
  if (isLearning && !addresses.some(isGiven)) {
    found.push("lacks an address from the network");
  }
  for (const { address, isPermanent } of addresses) {
    const isOwn = ips.some((ip) => ip.address.equals(address));
    if (isPermanent && !isOwn && !address.ip.isLinkLocal && wanted) {
      found.push(`address ${address} was added`);
    }
  }
  for (const { dst, gw } of isOnly ? result.routes : []) {
    const isThere = routes.some(({ destination, gateway }) =>
      destination.equals(dst.masked()) &&
      (gw === undefined || gateway?.equals(gw) === true)
    );
    if (!isThere) found.push(`lacks route ${formatRoute(dst, gw)}`);
  }
  return found;
}

/** Reports whether an address might be from a router or a DHCPv6 server. */
function isGiven({ address: { ip }, isPermanent }: Address): boolean {
  return ip.family === 6 && !ip.isLinkLocal && !isPermanent;
}

/** Formats a route in the words of `ip route`. */
export function formatRoute(
  destination: Cidr,
  gateway: { toString(): string } | undefined,
): string {
  const to = destination.prefixLength === 0
    ? destination.family === 6 ? "default (IPv6)" : "default"
    : String(destination);
  return gateway === undefined ? to : `${to} via ${gateway}`;
}
