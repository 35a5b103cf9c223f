/**
 * CHECK: verifies that an attachment still has its leases.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import { dataDirOf, rangeSetsOf } from "./config.ts";
import { findRange } from "./range.ts";
import type { HostLocalConfig } from "./schema.ts";
import { LeaseStore } from "./store.ts";

/**
 * Checks that the attachment has leases, including one for each address of
 * prevResult that is in the ranges, and for one of prevResult at least.
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
  const leases = store?.leasesOf(call.args) ?? [];
  const given = (call.prevResult?.ips ?? []).map(({ address }) => address.ip);
  const unleased = given.filter((ip) =>
    !leases.some((one) => one.ip.equals(ip))
  );
  // Others may be a chained plugin's.
  const lost = unleased.length === given.length
    ? unleased[0]
    : unleased.find((ip) => sets.some((set) => findRange(set, ip)));
  if (leases.length > 0 && lost === undefined) return;
  throw new CniError(
    ErrorCode.Internal,
    `host-local: Failed to find address added by container ${call.args.containerId}`,
    lost === undefined ? {} : { details: `${lost} is not leased` },
  );
}
