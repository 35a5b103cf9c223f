/**
 * CHECK and STATUS.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { Differences } from "../../cni/call/differences.ts";
import type { Result } from "../../cni/result/result.ts";
import type { ClaimKey } from "./claims/ipam_claim.ts";
import { findClaimRecord, listRecords } from "./pools.ts";
import { isOwned } from "./release.ts";
import type { Session } from "./session.ts";
import { checkEnds } from "./settings.ts";

/**
 * Checks that the pools have the attachment's addresses.
 *
 * @throws {CniError} 999 if they do not
 * @throws {KubeError}
 */
export async function checkRecords(session: Session): Promise<void> {
  const { call, api, owner } = session;
  const { prevResult } = call;
  if (prevResult === undefined) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "Required prevResult missing",
    );
  }
  const { ipamClaim } = session.files.read(owner, api.namespace) ?? {};
  if (ipamClaim !== undefined) {
    return await checkClaim(session, prevResult, ipamClaim);
  }
  const differences = new Differences();
  for (const { name, range } of await session.pools()) {
    const pool = await api.findPool(name);
    const records = pool ? listRecords(pool, range.cidr, call.log) : [];
    const isThere = records.some((record) =>
      isOwned(record, owner) &&
      prevResult.ips.some(({ address }) => address.ip.equals(record.ip))
    );
    if (isThere) continue;
    differences.add({
      msg: `IPPool "${name}" has no address of prevResult for container ` +
        `${owner.containerId}, interface ${owner.ifName}`,
    });
  }
  differences.throwAny();
}

/**
 * CHECK: the pools must have the addresses of the result for the claim.
 *
 * @throws {CniError} 999 if they do not
 * @throws {KubeError}
 */
async function checkClaim(
  { api, settings: { networkName, addresses = [] } }: Session,
  { ips }: Pick<Result, "ips">,
  claim: ClaimKey,
): Promise<void> {
  const held = ips.filter(({ address }) =>
    !addresses.some((one) => one.address.ip.equals(address.ip))
  );
  const differences = new Differences();
  for (const { address } of held) {
    if (await findClaimRecord(api, networkName, claim, address)) continue;
    differences.add({
      msg: `no IPPool has ${address} for IPAMClaim ` +
        `"${claim.namespace}/${claim.name}"`,
    });
  }
  differences.throwAny();
}

/**
 * Checks that the API server returns a pool.
 *
 * @throws {CniError} 50 if not
 */
export async function checkPoolAccess(session: Session): Promise<void> {
  checkEnds(session.settings);
  try {
    const [first] = await session.pools();
    await session.api.findPool(first?.name ?? "none");
  } catch (error) {
    throw new CniError(
      ErrorCode.PluginNotAvailable,
      `cannot reach the pools: ${describeError(error)}`,
    );
  }
}
