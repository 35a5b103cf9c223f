/**
 * How many addresses old results have room for.
 *
 * @module
 */

import type { IpFamily } from "../net/ip.ts";
import { CniError, ErrorCode } from "./error.ts";
import { isAtLeast } from "./version.ts";

/**
 * Checks that a result has room for the addresses that an IPAM plugin is to
 * give: before 0.3.0 that is one of each family.
 *
 * Source: containernetworking/plugins plugins/ipam/host-local/backend/allocator/config.go
 * `LoadIPAMConfig`, plugins/ipam/static/main.go `LoadIPAMConfig`.
 *
 * @param families That of each address; undefined counts as one
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
