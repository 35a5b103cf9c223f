/**
 * CHECK of both ends of the cable.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/args.ts";
import type { Result } from "../../cni/result.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import {
  checkAddresses,
  checkConnected,
  checkFailure,
  checkForwarding,
  checkLink,
  checkRoutes,
  sandboxInterfaceOf,
} from "../_shared/check_link.ts";
import { ownPartOf } from "../_shared/prev_result.ts";
import {
  containerRoute,
  gatewayRoutes,
  gatewaysOf,
  routedIpsOf,
} from "./routing.ts";

/**
 * Checks the container's end: link, addresses, the routes to and through the
 * gateways, and those of the IPAM plugin.
 *
 * @returns The link
 * @throws {CniError} 999 if something is not as ADD left it
 */
export function checkContainerEnd(
  sandbox: Rtnl,
  prevResult: Result,
  args: CmdArgs,
): Link {
  const expected = sandboxInterfaceOf(prevResult, args);
  const link = checkLink(sandbox, expected, "veth");
  const own = ownPartOf(prevResult, args);
  const ips = routedIpsOf(own);
  checkAddresses(sandbox, link, ips.map(({ address }) => address));
  checkRoutes(sandbox, link, [
    ...gatewayRoutes(ips),
    ...own.routes.map((route) => containerRoute(route, ips)),
  ], "any");
  return link;
}

/**
 * Checks the host's end: link, the gateways' addresses, the routes to the
 * container, and forwarding.
 *
 * @throws {CniError} 999 if something is not as ADD left it
 */
export function checkHostEnd(
  host: Rtnl,
  prevResult: Result,
  args: CmdArgs,
  containerEnd: Link,
): void {
  const hostInterface = prevResult.interfaces.find(({ sandbox }) => !sandbox);
  if (hostInterface === undefined) {
    throw checkFailure("prevResult has no interface of the host");
  }
  const link = checkLink(host, hostInterface, "veth");
  checkConnected(link, containerEnd);
  const ips = routedIpsOf(ownPartOf(prevResult, args));
  checkAddresses(host, link, gatewaysOf(ips).map(Cidr.host));
  const destinations = ips.map(({ address }) => Cidr.host(address.ip));
  const routes = destinations.map((destination) => ({ destination }));
  checkRoutes(host, link, routes, "main");
  checkForwarding(host.netns, destinations);
}
