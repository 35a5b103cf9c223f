/**
 * The gateways that a bridge gets: ADD adds them, and `cni validate` and
 * `cni doctor` say beforehand which of them it refuses.
 *
 * @module
 */

import type { IpConfig } from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";

/**
 * Returns the first address of the subnet, or the other one of a subnet of two;
 * the address itself if it is the last of its family and alone in the subnet.
 */
export function gatewayFor({ ip, network, prefixLength }: Cidr): Ip {
  if (network.value === BigInt.asUintN(ip.bitLength, -1n)) return network;
  const first = network.next();
  const isOfTwo = prefixLength === ip.bitLength - 1;
  return isOfTwo && first.equals(ip) ? network : first;
}

/**
 * Lists the gateways' addresses without duplicates, with their subnets' prefix
 * lengths. A gateway outside the subnet is a subnet of its own.
 */
export function gatewayAddressesOf(ips: readonly IpConfig[]): Cidr[] {
  const all = ips.flatMap(({ address, gateway }) => {
    if (gateway === undefined) return [];
    return address.contains(gateway)
      ? [Cidr.of(gateway, address.prefixLength)]
      : [Cidr.host(gateway)];
  });
  return all.filter((one, position) =>
    all.findIndex((other) => other.equals(one)) === position
  );
}

/**
 * Reports whether a bridge with this address cannot also have the gateway's
 * address.
 */
export function isInTheWay(address: Cidr, gateway: Cidr): boolean {
  if (address.family !== gateway.family) return false;
  // The kernel's own address, present on every link.
  if (address.family === 6 && address.ip.isLinkLocal) return false;
  return address.family === 4 || address.overlaps(gateway);
}
