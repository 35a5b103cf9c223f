/**
 * CHECK of both ends of the cable.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/args.ts";
import type { Result } from "../../cni/result.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import {
  checkAddresses,
  checkFailure,
  checkLink,
  checkRoutes,
  sandboxInterfaceOf,
} from "../_shared/check_link.ts";
import { familiesNotForwarded } from "../_shared/ip_forward.ts";
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
 * @throws {CniError} 999 if something is not as ADD left it
 */
export function checkContainerEnd(
  sandbox: Rtnl,
  prevResult: Result,
  args: CmdArgs,
): void {
  const expected = sandboxInterfaceOf(prevResult, args);
  const link = checkLink(sandbox, expected, "veth");
  const ips = routedIpsOf(ownPartOf(prevResult, args));
  checkAddresses(sandbox, link, ips.map(({ address }) => address));
  checkRoutes(sandbox, link, [
    ...gatewayRoutes(ips),
    ...prevResult.routes.map((route) => containerRoute(route, ips)),
  ]);
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
): void {
  const hostInterface = prevResult.interfaces.find(({ sandbox }) => !sandbox);
  if (hostInterface === undefined) {
    throw checkFailure("prevResult has no interface of the host");
  }
  const link = checkLink(host, hostInterface, "veth");
  const ips = routedIpsOf(ownPartOf(prevResult, args));
  checkAddresses(host, link, gatewaysOf(ips).map(Cidr.host));
  const destinations = ips.map(({ address }) => Cidr.host(address.ip));
  checkRoutes(host, link, destinations.map((destination) => ({ destination })));
  const [family] = familiesNotForwarded(host.netns, destinations);
  if (family !== undefined) {
    throw checkFailure(`IPv${family} forwarding is off`);
  }
}

/** Leaves out addresses that chained plugins gave to other interfaces. */
function ownPartOf(result: Result, { ifName }: CmdArgs): Result {
  const ips = result.ips.filter(({ interface: index }) =>
    index === undefined || result.interfaces[index]?.name === ifName
  );
  return { ...result, ips };
}
