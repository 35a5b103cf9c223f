/**
 * CHECK: verifies that an attachment still has its leases. STATUS: reports whether
 * an ADD could write its leases, and logs full ranges; it changes nothing and waits for
 * no lock.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { CniError, ErrorCode } from "../../base/error.ts";
import { unlessUnreachable, withIoFailure } from "../../base/files/io.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Ip } from "../../net/ip.ts";
import { candidates } from "./allocator.ts";
import { dataDirOf, persistentMsOf, rangeSetsOf } from "./config.ts";
import { findIp, isOfLink } from "./lease.ts";
import {
  isBlank,
  lastReservedName,
  LeaseFiles,
  LOCK_FILE,
  readLease,
} from "./lease_files.ts";
import { findRange, formatRangeSet, type RangeSet } from "./range.ts";
import { readResolvConf } from "./resolv_conf.ts";
import type { HostLocalConfig } from "./schema.ts";
import { LeaseStore } from "./store.ts";

/**
 * Checks that the attachment has leases: a lease for each address of prevResult that is
 * in the ranges, and for at least one address of prevResult.
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
  const leased = new Set(leases.map(({ ip }) => String(ip)));
  const unleased = given.filter((ip) => !leased.has(String(ip)));
  // Other addresses might be from a chained plugin.
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

/**
 * Checks that an ADD could write its leases. A full range is only logged: if STATUS
 * failed, the runtime would report the node as not ready, and Kubernetes would evict
 * the pods that have the addresses.
 *
 * @throws {CniError} 50 if leases cannot be written or a file cannot be read, 7 if the
 *   configuration is invalid
 */
export function checkStatus(call: Call<HostLocalConfig>): void {
  const sets = knownRangeSets(call);
  persistentMsOf(call.config);
  const { resolvConf } = call.config.ipam ?? {};
  const files = new LeaseFiles(
    dataDirOf(call.config),
    call.network,
    call.log,
  );
  asUnavailable(() => {
    if (resolvConf) readResolvConf(resolvConf);
    checkWritable(files);
    for (const [position, set] of sets.entries()) {
      const last = findIp(files.find(lastReservedName(position)) ?? "");
      // The order in which an ADD looks for an address; nothing is reserved.
      if (candidates(set, last).some(({ ip }) => isFree(files, ip))) continue;
      call.log.warn("No address is free in a range set", {
        rangeSet: formatRangeSet(set),
        leases: files.path,
      });
    }
  });
}

/** STATUS lacks the ranges that a runtime passes to each ADD. */
function knownRangeSets(
  { config, cniVersion }: Call<HostLocalConfig>,
): RangeSet[] {
  const { subnet, ranges = [] } = config.ipam ?? {};
  const hasOwn = subnet !== undefined || ranges.length > 0;
  const isGivenLater = config.capabilities?.ipRanges === true;
  return !hasOwn && isGivenLater ? [] : rangeSetsOf(config, cniVersion);
}

function asUnavailable(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    const { message, details } = error;
    throw new CniError(ErrorCode.PluginNotAvailable, message, { details });
  }
}

/**
 * Reports whether ADD can take an address. If no other address is free, ADD takes an
 * unused persistent address, or an address that is set aside.
 */
function isFree(files: LeaseFiles, ip: Ip): boolean {
  return unlessUnreachable(() => {
    const content = readLease(files.pathOf(`${ip}`));
    return content !== undefined && (isBlank(content) || isOfLink(content));
  }) ?? true;
}

/** @throws {CniError} 5 if leases cannot be written */
function checkWritable(files: LeaseFiles): void {
  const lock = files.pathOf(LOCK_FILE);
  withIoFailure(`write to the lease directory "${files.path}"`, () => {
    if (!canOpen(lock)) checkCreatable(lock);
  });
}

/**
 * Reports whether a file exists, and throws if it cannot be opened for writing.
 */
function canOpen(path: string): boolean {
  return unlessUnreachable(() => {
    using _file = Deno.openSync(path, { write: true });
    return true;
  }) ?? false;
}

/** @throws {Error} If nothing can be created at the path */
function checkCreatable(path: string): void {
  const parent = dirname(path);
  if (parent !== path && !unlessUnreachable(() => Deno.statSync(parent))) {
    return checkCreatable(parent);
  }
  try {
    // Renames nothing, as the file does not exist. But the kernel checks first
    // whether the file system is writable.
    Deno.renameSync(path, path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
