/**
 * CHECK: verifies that an attachment still has its leases. STATUS: reports whether
 * an ADD could write its leases; it changes nothing and waits for no lock.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { CniError, ErrorCode } from "../../base/error.ts";
import { unlessUnreachable, withIoFailure } from "../../base/files/io.ts";
import type { Call } from "../../cni/plugin.ts";
import { dataDirOf, rangeSetsOf } from "./config.ts";
import { persistentMsOf } from "./kept/retention.ts";
import { LeaseFiles, LOCK_FILE } from "./lease_files.ts";
import { findRange } from "./range.ts";
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
    ? unleased
    : unleased.filter((ip) => sets.some((set) => findRange(set, ip)));
  if (leases.length > 0 && lost.length === 0) return;
  throw new CniError(
    ErrorCode.Internal,
    `host-local: Failed to find address added by container ${call.args.containerId}`,
    { details: lost.map((ip) => `${ip} is not leased`).join("\n") },
  );
}

/**
 * Checks that an ADD could write its leases. STATUS does not search for a free address:
 * if STATUS of a full range failed, the runtime would report the node as not ready, and
 * Kubernetes would evict the pods that have the addresses.
 *
 * @throws {CniError} 50 if leases cannot be written or a file cannot be read, 7 if the
 *   configuration is invalid
 */
export function checkStatus(call: Call<HostLocalConfig>): void {
  const { config, network, log } = call;
  checkRangeSets(call);
  persistentMsOf(config);
  const { resolvConf } = config.ipam ?? {};
  asUnavailable(() => {
    if (resolvConf) readResolvConf(resolvConf);
    checkWritable(new LeaseFiles(dataDirOf(config), network, log));
  });
}

/** @throws {CniError} 7 if the ranges are invalid */
function checkRangeSets({ config, cniVersion }: Call<HostLocalConfig>): void {
  const { subnet, ranges = [] } = config.ipam ?? {};
  const hasOwn = subnet !== undefined || ranges.length > 0;
  // STATUS lacks the ranges that a runtime passes to each ADD.
  const isGivenLater = config.capabilities?.ipRanges === true;
  if (hasOwn || !isGivenLater) rangeSetsOf(config, cniVersion);
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
