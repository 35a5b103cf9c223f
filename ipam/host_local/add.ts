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
import type { AddressRequest, Candidate } from "./allocator.ts";
import {
  listAttempts,
  type Preparation,
  UnusedStoreError,
} from "./attempts.ts";
import {
  dataDirOf,
  hasPersistentAddresses,
  persistentMsOf,
  podNameOf,
  rangeSetsOf,
  requestedIpsOf,
} from "./config.ts";
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
export async function leaseAddresses(
  call: Call<HostLocalConfig>,
): Promise<Result> {
  const sets = rangeSetsOf(call.config, call.cniVersion);
  const requests = distribute(requestedIpsOf(call.config, call.args), sets);
  const persistentMs = persistentMsOf(call.config);
  const name = hasPersistentAddresses(call.config)
    ? podNameOf(call)
    : undefined;
  const replacement = CONFLICTS in call.config
    ? (await import("./set_aside.ts")).readReplacement(call.config)
    : undefined;
  const { resolvConf, routes = [] } = call.config.ipam ?? {};
  const dns = resolvConf ? readResolvConf(resolvConf) : emptyDns();
  const lease = async (
    { restarted = [], restore }: Preparation,
  ): Promise<Candidate[]> => {
    using store = await LeaseStore.open(
      dataDirOf(call.config),
      call.network,
      call,
      persistentMs,
    );
    if (restore !== undefined) await restore(store);
    else if (store.isUnused) throw new UnusedStoreError();
    const kept = { name, replacement, restarted };
    return leaseEach(requests, call.args, store, call.log, kept);
  };
  let failure: unknown;
  let isSecond = false;
  let preparation: Preparation = {};
  for (const attempt of listAttempts(call, sets)) {
    if (!attempt.appliesAfter(failure)) continue;
    try {
      const prepared = await attempt.prepare(failure, preparation);
      if (prepared === undefined) break;
      preparation = prepared;
      const ips = (await lease(preparation)).map(ipConfigOf);
      return { interfaces: [], ips, routes, dns };
    } catch (error) {
      failure = error;
      isSecond ||= error instanceof SecondLeaseError;
    }
  }
  // However the last attempt failed: this ADD has left nothing.
  if (isSecond) call.context.onAttached?.();
  throw failure;
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
