/**
 * The families of an IPAM plugin's addresses: how many addresses of one family an
 * old result can have, and which gateways an address can have.
 *
 * @module
 */

import type { Cidr } from "../../net/cidr.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { isAtLeast } from "../version.ts";

/**
 * Checks that a result has room for an IPAM plugin's addresses. Before 0.3.0 that
 * is one per family.
 *
 * Source: containernetworking/plugins plugins/ipam/host-local/backend/allocator/config.go
 * `LoadIPAMConfig`, plugins/ipam/static/main.go `LoadIPAMConfig`.
 *
 * @param families The family of each address; undefined counts as one family
 * @throws {CniError} 7 if there are more
 */
export function checkOnePerFamily(
  families: readonly (IpFamily | undefined)[],
  cniVersion: string,
): void {
  if (isAtLeast(cniVersion, "0.3.0")) return;
  if (new Set(families).size === families.length) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `CNI version ${cniVersion} does not support more than 1 address per family`,
  );
}

/**
 * Checks that a gateway is of the family of its address or subnet.
 *
 * @throws {CniError} 7 if it is not
 */
export function checkGatewayFamily(
  address: Cidr,
  gateway: Ip | undefined,
): void {
  if (gateway === undefined || gateway.family === address.family) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `gateway ${gateway} of ${address} is not an IPv${address.family} address`,
  );
}
