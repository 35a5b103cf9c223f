/**
 * ADD: leases one address from each list of ranges.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import {
  emptyDns,
  type IpConfig,
  type Result,
} from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Candidate } from "./allocator.ts";
import { dataDirOf, rangeSetsOf, requestedIpsOf } from "./config.ts";
import { holderOf, isStaying, stayTimeOf } from "./holders.ts";
import { distribute, leaseEach } from "./leasing.ts";
import { readResolvConf } from "./resolv_conf.ts";
import type { HostLocalConfig } from "./schema.ts";
import { LeaseStore } from "./store.ts";

/**
 * Leases an attachment's addresses: all of them, or none.
 *
 * Nothing waits while the store is open, so the lock is held only briefly.
 *
 * @throws {CniError} 7 if the ranges are malformed or lack a requested address,
 *   4 if addresses stay and the pod is unknown, 11 if no address is free, 999 if the attachment has leases already, 5 if a
 *   file cannot be read or written
 */
export async function leaseAddresses(
  call: Call<HostLocalConfig>,
): Promise<Result> {
  const sets = rangeSetsOf(call.config, call.cniVersion);
  const wishes = distribute(requestedIpsOf(call.config, call.args), sets);
  const stayMs = stayTimeOf(call.config);
  const holder = isStaying(call.config) ? holderOf(call) : undefined;
  const { resolvConf, routes = [] } = call.config.ipam ?? {};
  const dns = resolvConf ? readResolvConf(resolvConf) : emptyDns();
  using store = await LeaseStore.open(
    dataDirOf(call.config),
    call.network,
    call,
    stayMs,
  );
  const leased = leaseEach(wishes, call.args, store, call.log, holder);
  return { interfaces: [], ips: leased.map(ipConfigOf), routes, dns };
}

function ipConfigOf({ ip, range: { subnet, gateway } }: Candidate): IpConfig {
  return { address: Cidr.of(ip, subnet.prefixLength), gateway };
}
