/**
 * Addresses and routes at both ends of the cable.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type { IpConfig, Result, Route } from "../../cni/result.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Route as KernelRoute } from "../../ffi/rtnl/route.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import {
  addAddress,
  addRoute,
  kernelRouteOf,
  named,
} from "../_shared/configure_link.ts";
import { enableIpv6 } from "../_shared/ipv6.ts";
import type { LinkEnd } from "../_shared/veth.ts";

/** Source: include/uapi/linux/rtnetlink.h `rt_scope_t`. */
const SCOPE_HOST = 254, SCOPE_LINK = 253;

/** An address with the gateway through which everything is reached. */
export interface RoutedIp extends IpConfig {
  readonly gateway: Ip;
}

/**
 * The host's end of a cable whose addresses have no gateway of their own: an
 * address that is nobody else's, for it means something on the cable only.
 */
const CABLE_GATEWAYS: Readonly<Record<IpFamily, string>> = {
  4: "169.254.1.1",
  6: "fe80::1",
};

/**
 * Completes every address with a gateway: its own, else the first of its
 * family, else one that is only known on the cable. One made up from the subnet
 * might be a router's on another link of the host.
 *
 * @throws {CniError} 7 if a gateway is of the other family, or there is no address
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
      Ip.parse(CABLE_GATEWAYS[family]);
    if (gateway.family !== family) {
      throw refuse(
        `IPAM plugin returned gateway ${gateway} for ${ip.address}`,
      );
    }
    return { ...ip, gateway };
  });
}

/** Gives the container its addresses, brings its end up and adds its routes. */
export function configureContainerEnd(
  sandbox: Rtnl,
  link: LinkEnd,
  ips: readonly RoutedIp[],
  routes: readonly Route[],
): void {
  if (ips.some(({ address }) => address.family === 6)) {
    enableIpv6(sandbox.netns, link.name);
  }
  for (const { address } of ips) {
    addAddress(sandbox, link, { address, noPrefixRoute: true });
  }
  sandbox.link.setUp(link.index);
  for (const route of gatewayRoutes(ips)) {
    addRoute(sandbox, link, route);
  }
  for (const route of routes) {
    addRoute(sandbox, link, containerRoute(route, ips));
  }
}

/**
 * Lists the routes that lead everything through the gateways: the gateway is
 * on the cable, the rest of the subnet behind it.
 */
export function gatewayRoutes(ips: readonly RoutedIp[]): KernelRoute[] {
  const routes = ips.flatMap(({ address, gateway }): KernelRoute[] => {
    const preferredSource = address.ip;
    const toGateway = {
      destination: Cidr.host(gateway),
      scope: SCOPE_LINK,
      preferredSource,
    };
    const destination = address.masked();
    return destination.equals(Cidr.host(address.ip))
      ? [toGateway]
      : [toGateway, { destination, gateway, preferredSource }];
  });
  // Addresses may share a gateway or a subnet: the first one is the source.
  return routes.filter(({ destination }, position) =>
    routes.findIndex((other) => other.destination.equals(destination)) ===
      position
  );
}

/** Translates a route of the result; without a gateway it goes through its family's first. */
export function containerRoute(
  route: Route,
  ips: readonly RoutedIp[],
): KernelRoute {
  const kernelRoute = kernelRouteOf(route, ips);
  const { gateway } = kernelRoute;
  return {
    ...kernelRoute,
    // The subnet is not on the link, so the kernel would not believe in another
    // gateway within it.
    isOnLink: gateway !== undefined &&
      ips.some(({ address }) => address.contains(gateway)) &&
      !ips.some((ip) => ip.gateway.equals(gateway)),
  };
}

/** Gives the host the gateways' addresses and leads the container's to the cable. */
export function routeToContainer(
  host: Rtnl,
  link: LinkEnd,
  ips: readonly RoutedIp[],
): void {
  for (const gateway of gatewaysOf(ips)) {
    const address = Cidr.host(gateway);
    addAddress(host, link, { address, noPrefixRoute: true });
  }
  for (const { address } of ips) {
    // In place of a route to an earlier container with the same address, whose
    // cable may not be gone yet.
    const destination = Cidr.host(address.ip);
    const route = { destination, ifindex: link.index, scope: SCOPE_HOST };
    named(`add route ${destination} to "${link.name}"`, () => {
      host.route.replace(route);
    });
  }
}

/** Lists the gateways, each once. */
export function gatewaysOf(ips: readonly RoutedIp[]): Ip[] {
  return ips.map(({ gateway }) => gateway).filter((gateway, position, all) =>
    all.findIndex((other) => other.equals(gateway)) === position
  );
}
