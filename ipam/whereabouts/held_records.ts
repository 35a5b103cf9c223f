/**
 * The records of IPAMClaims in the pools.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Result } from "../../cni/result/result.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { WhereaboutsApi } from "./api.ts";
import { type ClaimKey, recordOf } from "./ipam_claim.ts";
import { offsetKey, poolName } from "./names.ts";
import type { Allocation } from "./objects.ts";
import type { Session } from "./session.ts";

/** A claim's record, and where it is. */
export interface HeldRecord {
  readonly pool: string;
  readonly key: string;
  readonly value: Allocation;
}

/**
 * Finds the record of an address that a claim has. The address's prefix is that
 * of the range at the time, so this works after the ranges have changed.
 *
 * @throws {KubeError}
 */
export async function findHeld(
  api: WhereaboutsApi,
  networkName: string,
  claim: ClaimKey,
  address: Cidr,
): Promise<HeldRecord | undefined> {
  const cidr = address.masked();
  const pool = poolName({ networkName, nodeName: "", cidr });
  const key = offsetKey(cidr, address.ip);
  const value = (await api.findPool(pool))?.spec.allocations?.[key];
  if (value?.id !== recordOf(claim, "").id) return undefined;
  return { pool, key, value };
}

/**
 * CHECK: the pools must have the addresses of the result for the claim.
 *
 * @throws {CniError} 999 if they do not
 * @throws {KubeError}
 */
export async function checkHeld(
  { api, settings: { networkName, addresses = [] } }: Session,
  { ips }: Pick<Result, "ips">,
  claim: ClaimKey,
): Promise<void> {
  const held = ips.filter(({ address }) =>
    !addresses.some((one) => one.address.ip.equals(address.ip))
  );
  for (const { address } of held) {
    if (await findHeld(api, networkName, claim, address)) continue;
    throw new CniError(
      ErrorCode.Internal,
      `no IPPool has ${address} for IPAMClaim ` +
        `"${claim.namespace}/${claim.name}"`,
    );
  }
}
