/**
 * CHECK: verifies that an attachment still has its leases.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type { Call } from "../../cni/plugin.ts";
import { dataDirOf, rangeSetsOf } from "./config.ts";
import { findRange } from "./range.ts";
import type { HostLocalConfig } from "./schema.ts";
import { LeaseStore } from "./store.ts";

/**
 * Checks that the attachment has leases, including one for each address of
 * prevResult that is in the ranges.
 *
 * @throws {CniError} 999 if not, 7 if the ranges are malformed
 */
export async function checkLeases(
  call: Call<HostLocalConfig>,
): Promise<void> {
  const sets = rangeSetsOf(call.config, call.cniVersion);
  using store = await LeaseStore.find(
    dataDirOf(call.config),
    call.network,
    call,
  );
  const leased = (store?.leasesOf(call.args) ?? []).map(({ ip }) => ip);
  const lost = call.prevResult?.ips.find(({ address: { ip } }) =>
    sets.some((set) => findRange(set, ip)) &&
    !leased.some((lease) => lease.equals(ip))
  );
  if (leased.length > 0 && lost === undefined) return;
  throw new CniError(
    ErrorCode.Internal,
    `host-local: Failed to find address added by container ${call.args.containerId}`,
    lost === undefined ? {} : { details: `${lost.address.ip} is not leased` },
  );
}
