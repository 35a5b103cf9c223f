/**
 * host-local: addresses from ranges in the configuration, leased in files on
 * this host.
 *
 * ```json
 * {
 *   "ipam": {
 *     "type": "host-local",
 *     "ranges": [
 *       [{ "subnet": "10.1.2.0/24", "rangeStart": "10.1.2.10" }],
 *       [{ "subnet": "2001:db8:1::/64" }]
 *     ],
 *     "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }]
 *   }
 * }
 * ```
 *
 * An attachment gets one address from each list of ranges. The leases are in
 * `/var/lib/cni/networks/<network>/` (`dataDir`), in the Go plugin's format, so
 * that both may be in use on one host. DEL leaves the folder with its `lock`
 * and `last_reserved_ip.*`. GC ends the leases of attachments that are no longer
 * valid, if it is told which ones are.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../cni/error.ts";
import type { Log } from "../../cni/log.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyDns, type IpConfig, type Result } from "../../cni/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import { allocate, allocateRequested, type Candidate } from "./allocator.ts";
import { rangeSetsOf, requestedIpsOf } from "./config.ts";
import { findRange, type RangeSet } from "./range.ts";
import { readResolvConf } from "./resolv_conf.ts";
import type { HostLocalConfig } from "./schema.ts";
import { DEFAULT_DATA_DIR, LeaseStore, type Owner } from "./store.ts";

/** The plugin. Source: containernetworking/plugins plugins/ipam/host-local/main.go. */
export const hostLocal: Plugin<HostLocalConfig> = definePlugin({
  name: "host-local",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).hostLocalSchema(),

  // Nothing here may wait while the store is open: a second call in this very
  // process would block on the lock, and the first could not go on.
  add(call): Result {
    const sets = rangeSetsOf(call.config, call.cniVersion);
    const wishes = distribute(requestedIpsOf(call.config, call.args), sets);
    const { resolvConf, routes = [] } = call.config.ipam ?? {};
    const dns = resolvConf ? readResolvConf(resolvConf) : emptyDns();
    using store = LeaseStore.open(dataDirOf(call), call.network);
    const leased = leaseEach(wishes, store, call);
    return { interfaces: [], ips: leased.map(ipConfigOf), routes, dns };
  },

  check(call): void {
    const sets = rangeSetsOf(call.config, call.cniVersion);
    using store = LeaseStore.find(dataDirOf(call), call.network);
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
  },

  // The ranges do not matter here: leases shall end even if the configuration
  // has become wrong since.
  del(call): void {
    using store = LeaseStore.find(dataDirOf(call), call.network);
    store?.release(store.leasesOf(call.args));
  },

  gc(call): void {
    const valid = call.validAttachments;
    // A list that is missing is not an empty one: then nothing is known.
    if (valid === undefined) return;
    using store = LeaseStore.find(dataDirOf(call), call.network);
    store?.release(store.leasesOfOthers(valid));
  },
});

function dataDirOf({ config }: Call<HostLocalConfig>): string {
  return config.ipam?.dataDir || DEFAULT_DATA_DIR;
}

function ipConfigOf({ ip, range: { subnet, gateway } }: Candidate): IpConfig {
  return { address: Cidr.of(ip, subnet.prefixLength), gateway };
}

/** A range set that owes an address; any one unless one is requested. */
interface Wish {
  readonly set: RangeSet;
  readonly requested: Ip | undefined;
}

/**
 * Gives each set the first of the requested addresses that it has.
 *
 * @throws {CniError} 7 if an address is left over
 */
function distribute(
  requested: readonly Ip[],
  sets: readonly RangeSet[],
): Wish[] {
  const left = [...requested];
  const wishes = sets.map((set): Wish => {
    const position = left.findIndex((ip) => findRange(set, ip) !== undefined);
    const [ip] = position < 0 ? [] : left.splice(position, 1);
    return { set, requested: ip };
  });
  if (left.length === 0) return wishes;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `failed to allocate all requested IPs: ${left.join(" ")}`,
  );
}

/** Leases one address from each set, or none at all. */
function leaseEach(
  wishes: readonly Wish[],
  store: LeaseStore,
  { args: owner, log }: Call<HostLocalConfig>,
): Candidate[] {
  refuseSecondLease(wishes, store, owner);
  const leased: Candidate[] = [];
  const reserve = (ip: Ip): boolean => store.reserve(ip, owner);
  for (const [position, { set, requested }] of wishes.entries()) {
    try {
      const lease = requested === undefined
        ? allocate(set, store.lastReserved(position), reserve)
        : allocateRequested(set, requested, reserve);
      leased.push(lease);
      store.setLastReserved(position, lease.ip);
    } catch (error) {
      takeBack(leased, store, log);
      throw failedAt(position, error);
    }
  }
  return leased;
}

/** Ends only these leases: the owner may have others, from another ADD. */
function takeBack(
  leased: readonly Candidate[],
  store: LeaseStore,
  log: Log,
): void {
  for (const { ip } of leased) {
    try {
      store.releaseIp(ip);
    } catch (error) {
      // The error that is reported is the one before.
      log.error(`Cannot release ${ip}`, { error: describeError(error) });
    }
  }
}

/**
 * Refuses an attachment that has a lease already: either it is attached, or
 * its DEL is still to come.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/allocator/allocator.go `Get`.
 */
function refuseSecondLease(
  wishes: readonly Wish[],
  store: LeaseStore,
  owner: Owner,
): void {
  const leases = store.leasesOf(owner);
  for (const [position, { set }] of wishes.entries()) {
    const lease = leases.find(({ ip }) => findRange(set, ip) !== undefined);
    if (lease === undefined) continue;
    const error = new CniError(
      ErrorCode.Internal,
      `${lease.ip} has been allocated to ${owner.containerId}, ` +
        "duplicate allocation is not allowed",
      { details: lease.path },
    );
    throw failedAt(position, error);
  }
}

function failedAt(position: number, error: unknown): unknown {
  if (!(error instanceof CniError)) return error;
  const message = `failed to allocate for range ${position}: ${error.message}`;
  return new CniError(error.code, message, {
    details: error.ownDetails ?? "",
    cause: error.cause,
  });
}
