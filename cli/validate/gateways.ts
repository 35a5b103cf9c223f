/**
 * Problems with the gateways of a plugin's addresses.
 *
 * @module
 */

import { RouteScope } from "../../cni/result/route.ts";
import type { GatewayLink } from "../../cni/tools/about.ts";
import { listOf, readCidr } from "../../cni/tools/given_values.ts";
import { objectOf } from "../../base/json/json.ts";
import type { Cidr } from "../../net/cidr.ts";
import {
  gatewayAddressesOf,
  gatewayFor,
  isInTheWay,
} from "../../plugins/bridge/inspect.ts";
import type { CheckedPlugin } from "./keys.ts";
import {
  errorAt,
  type Place,
  type Problem,
  warningAt,
} from "../../cni/tools/problem.ts";

/** A gateway that ADD adds to a link of the host. */
export interface NetworkGateway {
  /** Where its subnet is in the configuration. */
  readonly place: Place;
  readonly link: GatewayLink;
  readonly address: Cidr;
}

/**
 * Lists the gateways that the plugin adds to a link of the host, as sets: ADD
 * adds one of each set.
 */
export function listGateways(
  { folded, place, about, ipamAbout }: CheckedPlugin,
): NetworkGateway[][] {
  const link = about?.network?.gatewayLink?.(folded);
  if (link === undefined) return [];
  const sets = ipamAbout?.subnets?.(objectOf(folded["ipam"])) ?? [];
  return sets.map((set) =>
    set.flatMap(({ place: at, subnet, gateway = gatewayFor(subnet) }) =>
      gateway.family !== subnet.family
        ? []
        : gatewayAddressesOf([{ address: subnet, gateway }]).map((address) => ({
          place: [...place, "ipam", ...at],
          link,
          address,
        }))
    )
  );
}

/** Lists gateways that ADD cannot use. */
export function checkGateways(checked: CheckedPlugin): Problem[] {
  return [
    ...listGateways(checked).flatMap(checkSet),
    ...checkBroadcast(checked),
  ];
}

/** Finds broadcast addresses that a route would use as its gateway. */
function checkBroadcast(
  { folded, place, about, ipamAbout }: CheckedPlugin,
): Problem[] {
  const ipam = objectOf(folded["ipam"]);
  const sets = ipamAbout?.subnets?.(ipam) ?? [];
  const isUsed = about?.network?.routesByGateway?.(folded) === true ||
    listOf(ipam["routes"]).some(({ dst, gw, scope }) =>
      readCidr(dst)?.family === 4 && !gw && scope !== RouteScope.link
    );
  if (!isUsed) return [];
  return sets.flat().filter(({ subnet, gateway }) =>
    gateway !== undefined && subnet.broadcast?.equals(gateway)
  ).map(({ place: at, gateway }) =>
    errorAt(
      [...place, "ipam", ...at],
      `ADD fails: a route has the gateway ${gateway}, the broadcast address`,
    )
  );
}

/** Finds a gateway that is in the way of the first one of its set. */
function checkSet([first, ...others]: readonly NetworkGateway[]): Problem[] {
  if (first === undefined) return [];
  return others.filter(({ address }) =>
    !address.equals(first.address) && isInTheWay(first.address, address)
  ).map(({ place, link }) =>
    warningAt(
      place,
      describeClash(link, `${first.address} of the set's first range`),
      "gateway-clash",
    )
  );
}

/** Says what ADD does where a link has the gateway of others. */
export function describeClash(link: GatewayLink, other: string): string {
  return link.replaces
    ? `ADD deletes the gateway ${other} from "${link.name}"`
    : `ADD fails while "${link.name}" has the gateway ${other}`;
}
