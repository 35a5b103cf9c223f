/**
 * ADD: leases one address from each list of ranges, or none at all.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { CONFLICTS } from "../../cni/config/types.ts";
import type { Call } from "../../cni/plugin.ts";
import {
  emptyDns,
  type IpConfig,
  type Result,
} from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import {
  type AddressRequest,
  type Candidate,
  NotFreeError,
} from "./allocator.ts";
import { dataDirOf, rangeSetsOf, requestedIpsOf } from "./config.ts";
import { retentionOf } from "./kept/retention.ts";
import type { DatedLease } from "./lease.ts";
import { leaseEach, SecondLeaseError } from "./lease_each.ts";
import { findRange, type RangeSet } from "./range.ts";
import { readResolvConf } from "./resolv_conf.ts";
import type { HostLocalConfig } from "./schema.ts";
import { LeaseStore } from "./store.ts";

/**
 * Leases an attachment's addresses: all of them, or none.
 *
 * Nothing waits while the store is open, so the lock is held only briefly, except
 * while lost leases are restored.
 *
 * @throws {CniError} 7 if the ranges are malformed or lack a requested address,
 *   4 if addresses are persistent and the pod is unknown, 11 if no address is
 *   free, 999 if the attachment has leases already, 5 if a file cannot be read
 *   or written
 */
export async function leaseFromRanges(
  call: Call<HostLocalConfig>,
): Promise<Result> {
  const sets = rangeSetsOf(call.config, call.cniVersion);
  const requests = distribute(requestedIpsOf(call.config, call.args), sets);
  const retention = retentionOf(call);
  const replacement = CONFLICTS in call.config
    ? (await import("./kept/replacement.ts")).readReplacement(call.config)
    : undefined;
  const { resolvConf, routes = [] } = call.config.ipam ?? {};
  const dns = resolvConf ? readResolvConf(resolvConf) : emptyDns();
  const open = (): Promise<LeaseStore> =>
    LeaseStore.open(dataDirOf(call.config), call.network, call, retention);
  const leaseIn = (
    store: LeaseStore,
    restarted: readonly DatedLease[],
  ): Result => {
    const retained = { replacement, restarted };
    const ips = leaseEach(requests, call.args, store, call.log, retained)
      .map(ipConfigOf);
    return { interfaces: [], ips, routes, dns };
  };
  const lease = async (
    restarted: readonly DatedLease[] = [],
  ): Promise<Result> => {
    {
      using store = await open();
      if (!store.isUnused) return leaseIn(store, restarted);
    }
    // Running containers keep their addresses if a program deleted the directory.
    const { prepareRestoration } = await import("./recovery/lost_leases.ts");
    const restore = await prepareRestoration(call, sets);
    using store = await open();
    await restore(store);
    return leaseIn(store, restarted);
  };
  try {
    return await lease();
  } catch (error) {
    try {
      const restarted = await endDeadLeasesAfter(error, call);
      if (restarted === undefined) throw error;
      return await lease(restarted);
    } catch (failure) {
      const isSecond = [error, failure].some((one) =>
        one instanceof SecondLeaseError
      );
      // This ADD has leased nothing.
      if (isSecond) call.context.onAttached?.();
      throw failure;
    }
  }
}

/**
 * Ends leases of deleted containers if no address is free, or finds the leases of
 * the same container from before it was started again.
 *
 * @returns The container's leases; undefined if another attempt would fail as well
 */
async function endDeadLeasesAfter(
  error: unknown,
  call: Call<HostLocalConfig>,
): Promise<readonly DatedLease[] | undefined> {
  if (error instanceof NotFreeError) {
    const { endDeadLeases } = await import("./recovery/dead_leases.ts");
    return await endDeadLeases(call) ? [] : undefined;
  }
  if (!(error instanceof SecondLeaseError)) return undefined;
  const { findOwnDeadLeases } = await import("./recovery/restarted.ts");
  const restarted = await findOwnDeadLeases(call);
  return restarted.length > 0 ? restarted : undefined;
}

function ipConfigOf({ ip, range: { subnet, gateway } }: Candidate): IpConfig {
  return { address: Cidr.of(ip, subnet.prefixLength), gateway };
}

/**
 * Gives each set the first remaining requested address that it contains.
 *
 * @throws {CniError} 7 if a requested address is left over
 */
export function distribute(
  requested: readonly Ip[],
  sets: readonly RangeSet[],
): AddressRequest[] {
  const left = [...requested];
  const requests = sets.map((set): AddressRequest => {
    const position = left.findIndex((ip) => findRange(set, ip) !== undefined);
    const [ip] = position < 0 ? [] : left.splice(position, 1);
    return { set, requested: ip };
  });
  if (left.length === 0) return requests;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `failed to allocate all requested IPs: ${left.join(" ")}`,
    { details: "no remaining range set contains them" },
  );
}
