/**
 * Addresses and routes at both ends of the veth pair.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { IpConfig, Result, Route } from "../../cni/result/result.ts";
import type { SyscallError } from "../../ffi/errno.ts";
import { Scope } from "../../ffi/rtnl/constants.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Route as KernelRoute } from "../../ffi/rtnl/route.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import {
  addingAddress,
  addingRoute,
  bringingUp,
  kernelRouteOf,
  makeChanges,
  type NetnsChange,
  withAction,
} from "../parts/link/configure_link.ts";
import { enableIpv6 } from "../parts/address/ipv6.ts";
import type { LinkEnd } from "../parts/link/veth.ts";
import type { AddressOwner } from "./free_addresses.ts";

/** An address with the gateway for all its traffic. */
export interface RoutedIp extends IpConfig {
  readonly gateway: Ip;
}

/**
 * Gateway addresses on the host's end of a veth pair if IPAM returns none:
 * link-local, so only the veth pair uses them.
 */
const PAIR_GATEWAYS: Readonly<Record<IpFamily, string>> = {
  4: "169.254.1.1",
  6: "fe80::1",
};

/**
 * Completes every address with a gateway: its own gateway; otherwise the first
 * gateway of its family; otherwise a gateway that is only valid on the veth pair. The
 * plugin does not derive a gateway from the subnet, because it might be a router on a
 * different link of the host.
 *
 * @throws {CniError} 7 without addresses, or if a gateway is of the other family
 */
export function routedIpsOf({ ips }: Result): RoutedIp[] {
  const refuse = (why: string): CniError =>
    new CniError(ErrorCode.InvalidNetworkConfig, why);
  if (ips.length === 0) {
    throw refuse("IPAM plugin returned missing IP config");
  }
  return ips.map((ip) => {
    const { family } = ip.address;
    const gateway = ip.gateway ??
      ips.find(({ gateway }) => gateway?.family === family)?.gateway ??
      Ip.parse(PAIR_GATEWAYS[family]);
    if (gateway.family !== family) {
      throw refuse(
        `IPAM plugin returned unusable gateway ${gateway} for ${ip.address}`,
      );
    }
    return { ...ip, gateway };
  });
}

/** Adds addresses to the container's end, brings it up and adds its routes. */
export function configureContainerEnd(
  sandbox: Rtnl,
  link: LinkEnd,
  ips: readonly RoutedIp[],
  routes: readonly Route[],
): void {
  if (ips.some(({ address }) => address.family === 6)) {
    enableIpv6(sandbox.netns, link.name);
  }
  makeChanges(sandbox, [
    ...ips.map(({ address }) =>
      addingAddress(sandbox, link, { address, noPrefixRoute: true })
    ),
    bringingUp(sandbox, link),
    ...gatewayRoutes(ips).map((route) => addingRoute(sandbox, link, route)),
    ...routes.map((route) =>
      addingRoute(sandbox, link, containerRoute(route, ips))
    ),
  ]);
}

/**
 * Lists the routes of all traffic through the gateways: the gateway is on the veth
 * pair, and the rest of the subnet is behind the gateway.
 */
export function gatewayRoutes(ips: readonly RoutedIp[]): KernelRoute[] {
  const routes = ips.flatMap(({ address, gateway }): KernelRoute[] => {
    const preferredSource = address.ip;
    const toGateway = {
      destination: Cidr.host(gateway),
      scope: Scope.Link,
      preferredSource,
    };
    const destination = address.masked();
    return destination.equals(Cidr.host(address.ip))
      ? [toGateway]
      : [toGateway, { destination, gateway, preferredSource }];
  });
  // Addresses can share a gateway or a subnet: the first address is the source.
  return routes.filter(({ destination }, position) =>
    routes.findIndex((other) => other.destination.equals(destination)) ===
      position
  );
}

/**
 * Converts a route of the result. Without a gateway, it uses the first gateway of its
 * family.
 */
export function containerRoute(
  route: Route,
  ips: readonly RoutedIp[],
): KernelRoute {
  const kernelRoute = kernelRouteOf(route, ips);
  const { gateway } = kernelRoute;
  return {
    ...kernelRoute,
    // No subnet is on the veth pair, so the kernel would refuse any gateway except
    // the addresses' own gateways.
    isOnLink: gateway !== undefined &&
      !ips.some((ip) => ip.gateway.equals(gateway)),
  };
}

/**
 * Checks that no other machine uses the addresses, as far as the host can determine.
 *
 * @throws {CniError} 7 if the host or a router has an address, 11 if it is in use
 */
export async function checkAddressesFree(
  host: Rtnl,
  ips: readonly RoutedIp[],
  owner: AddressOwner,
): Promise<void> {
  for (const { address: { ip } } of ips) {
    const entry = host.route.findMatch(ip);
    // Without a route, or behind a router, the address is on no link of the host.
    if (entry === undefined || isBehindRouter(entry, ip)) continue;
    const { checkAddressFree, stalePairTest } = await import(
      "./free_addresses.ts"
    );
    checkAddressFree(host, ip, entry, stalePairTest(host, owner));
  }
}

function isBehindRouter(entry: RouteEntry, ip: Ip): boolean {
  const { destination, isUnicast, hasGateway } = entry;
  return isUnicast && hasGateway && !destination.equals(Cidr.host(ip));
}

/**
 * Adds the gateways' addresses to the host, and routes the container's addresses to
 * the veth pair.
 *
 * @throws {Error} If an address is routed elsewhere
 */
export async function routeToContainer(
  host: Rtnl,
  link: LinkEnd,
  { gateways, destinations, owner }: {
    readonly gateways: readonly Cidr[];
    readonly destinations: readonly Cidr[];
    readonly owner: AddressOwner;
  },
): Promise<void> {
  const refused: [action: string, KernelRoute, SyscallError][] = [];
  const routingTo = (destination: Cidr): NetnsChange => {
    const route = { destination, ifindex: link.index, scope: Scope.Host };
    const action = `add route ${destination} to "${link.name}"`;
    return {
      action,
      make: () => host.route.add(route),
      recover(refusal): void {
        if (refusal.errno !== "EEXIST") throw refusal;
        refused.push([action, route, refusal]);
      },
    };
  };
  makeChanges(host, [
    ...gateways.map((address) =>
      addingAddress(host, link, { address, noPrefixRoute: true })
    ),
    ...destinations.map(routingTo),
  ]);
  if (refused.length === 0) return;
  const { stalePairTest, replaceStaleRoute } = await import(
    "./free_addresses.ts"
  );
  const isStale = stalePairTest(host, owner);
  for (const [action, route, refusal] of refused) {
    withAction(action, () => replaceStaleRoute(host, route, refusal, isStale));
  }
}

/** Lists the gateways without duplicates. */
export function gatewaysOf(ips: readonly RoutedIp[]): Ip[] {
  return ips.map(({ gateway }) => gateway).filter((gateway, position, all) =>
    all.findIndex((other) => other.equals(gateway)) === position
  );
}
