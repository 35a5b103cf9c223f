/**
 * Releases addresses.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import { isNotFound } from "../../kube/kube_error.ts";
import { pauseMs, type WhereaboutsApi } from "./api.ts";
import { allocationPath, type IpPool, reservationName } from "./objects.ts";
import { listRecords, type Pool, type PoolRecord } from "./pools.ts";
import type { PoolAllocation } from "./allocation_files.ts";
import type { PodInterface } from "./settings.ts";
import type { PatchOperation } from "../../kube/write.ts";

/** How often to repeat a patch that is refused although nothing has changed. */
const MAX_REFUSALS = 20;

/**
 * Releases a claim: the record if it is still the claim's, and its reservation.
 * The record comes first: until it is deleted, another sandbox of the pod can
 * take it over, together with its reservation.
 *
 * @param isRemoved Whether the record is already removed
 * @throws {CniError} 11 if the server keeps refusing
 * @throws {KubeError}
 */
export async function releaseAllocation(
  claim: PoolAllocation,
  api: WhereaboutsApi,
  isRemoved = false,
): Promise<void> {
  const { pool, key, value, reservation } = claim;
  const operations = removalOf(claim);
  for (
    let refusals = 0;
    !isRemoved && !await api.patchPool(pool, operations);
  ) {
    const current = (await poolIfAny(pool, api))?.spec.allocations?.[key];
    const isTakenOver = current?.podref === value.podref &&
      current.ifname === value.ifname;
    const isRefused = isTakenOver && current.id === value.id;
    if (isRefused && refusals < MAX_REFUSALS) {
      await pause(pauseMs(refusals++, Math.random));
      continue;
    }
    if (isRefused) throw refusedError(claim);
    if (isTakenOver) return;
    // Released before: the answer was lost, or the reservation could not be
    // deleted then.
    break;
  }
  if (reservation?.uid) {
    await api.deleteReservation(reservation.name, reservation.uid);
  }
}

/** Lists the operations that remove a record if it is still the claim's. */
function removalOf({ key, value }: PoolAllocation): PatchOperation[] {
  const path = allocationPath(key);
  return [{ op: "test", path, value }, { op: "remove", path }];
}

/** Records per patch. */
const RECORDS_AT_ONCE = 100;

/** Names the place of a record. */
export function placeOf({ pool, key }: PoolAllocation): string {
  return `${pool} ${key}`;
}

/**
 * Removes many records with each patch, because the server reads and writes the whole
 * pool for each patch. {@linkcode releaseAllocation} removes the remaining records.
 *
 * @returns The places of the removed records
 */
export async function removeRecords(
  claims: readonly PoolAllocation[],
  api: WhereaboutsApi,
): Promise<Set<string>> {
  const removed = new Set<string>();
  for (const [pool, all] of Map.groupBy(claims, ({ pool }) => pool)) {
    for (let at = 0; at < all.length; at += RECORDS_AT_ONCE) {
      const some = all.slice(at, at + RECORDS_AT_ONCE);
      const patched = await api.patchPool(pool, some.flatMap(removalOf))
        .catch(() => undefined);
      if (patched === undefined) continue;
      for (const claim of some) removed.add(placeOf(claim));
    }
  }
  return removed;
}

function refusedError({ pool, key }: PoolAllocation): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `the API server refuses to release offset ${key} of IPPool "${pool}"`,
  );
}

/** Reads a pool. Without the CRDs, no pool exists. */
async function poolIfAny(
  name: string,
  api: WhereaboutsApi,
): Promise<IpPool | undefined> {
  try {
    return await api.findPool(name);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Releases the claim of a failed ADD. Failures are logged. */
export async function undoClaim(
  claim: PoolAllocation,
  api: WhereaboutsApi,
  log: Log,
): Promise<void> {
  try {
    await releaseAllocation(claim, api);
  } catch (error) {
    const { pool, key } = claim;
    const problem = describeError(error);
    log.error("Cannot release an address", { pool, key, error: problem });
  }
}

/** The input of {@linkcode releaseOwned}. */
export interface Search {
  readonly pool: Pool;
  readonly owner: PodInterface;
  readonly networkName: string;
  readonly isOverlapping: boolean;
  readonly api: WhereaboutsApi;
  readonly log: Log;
}

/**
 * Finds and releases an attachment's addresses in a pool.
 *
 * @throws {KubeError}
 */
export async function releaseOwned(search: Search): Promise<void> {
  const { pool: { name, range }, owner, api, log } = search;
  const pool = await poolIfAny(name, api);
  if (pool === undefined) return;
  for (const record of listRecords(pool, range.cidr, log)) {
    if (isOwned(record, owner)) await releaseRecord(search, record);
  }
}

/** Reports whether a record is an attachment's. */
export function isOwned(
  { value: { id, podref, ifname } }: Pick<PoolRecord, "value">,
  owner: PodInterface,
): boolean {
  if (id !== owner.containerId) return false;
  return ifname === undefined
    ? podref === owner.podref
    : ifname === owner.ifName;
}

async function releaseRecord(
  { pool, api, networkName, isOverlapping }: Search,
  { key, value, ip }: PoolRecord,
): Promise<void> {
  const name = reservationName(networkName, ip);
  const found = isOverlapping ? await api.findReservation(name) : undefined;
  const { podref, ifname = value.ifname } = found?.spec ?? {};
  const isOwn = podref === value.podref && ifname === value.ifname;
  const uid = isOwn ? found?.metadata?.uid : undefined;
  const claim = { pool: pool.name, key, value };
  await releaseAllocation(
    uid ? { ...claim, reservation: { name, uid } } : claim,
    api,
  );
}
