/**
 * ADD for an attachment whose addresses other machines have: they are set aside in
 * the pools, for all nodes.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { type Conflict, maySetAside } from "../../cni/config/conflicts.ts";
import type { PatchOperation } from "../../kube/write.ts";
import { pauseMs } from "./api.ts";
import { allocationPath, reservationName } from "./objects.ts";
import { listRecords, type Pool, type PoolRecord } from "./pools.ts";
import { contains, type Range } from "./range.ts";
import { isOwned } from "./release.ts";
import type { Session } from "./session.ts";
import {
  isSetAsideOver,
  parseSetAside,
  setAsideRecord,
} from "./set_aside_record.ts";

export { decodeConflicts } from "../../cni/config/conflicts.ts";

/** How often to try again if other writers come first. */
const MOST_TRIES = 20;

/**
 * Sets those addresses of the attachment aside that other machines have.
 *
 * @throws {CniError} 11 if other writers keep changing the pool
 * @throws {KubeError}
 */
export async function setAside(
  session: Session,
  pools: readonly Pool[],
  conflicts: readonly Conflict[],
): Promise<void> {
  // It lacks the next address until that is written: DEL searches the pools.
  session.files.remove(session.owner);
  for (const conflict of conflicts) {
    const pool = pools.find(({ range }) => contains(range, conflict.ip));
    if (pool === undefined) continue;
    if (!await setRecordAside(session, pool, conflict)) continue;
    await deleteOwnReservation(session, conflict);
  }
}

/** @returns Whether the attachment had the address */
async function setRecordAside(
  { api, owner, call: { log }, signal }: Session,
  { name, range }: Pool,
  { ip, mac }: Conflict,
): Promise<boolean> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const current = await api.findPool(name);
    const records = current ? listRecords(current, range.cidr, log) : [];
    const own = records.find((record) =>
      record.ip.equals(ip) && isOwned(record, owner)
    );
    if (own === undefined) return false;
    const aside = records.filter(({ value }) => parseSetAside(value));
    const over = aside.filter(isOver);
    const may = maySetAside(aside.length - over.length, sizeOf(range));
    const path = allocationPath(own.key);
    const value = setAsideRecord(mac, owner.ifName);
    const patched = await api.patchPool(name, [
      ...over.flatMap(releasing),
      { op: "test", path, value: own.value },
      may ? { op: "replace", path, value } : { op: "remove", path },
    ]);
    if (patched !== undefined) return true;
    await pause(pauseMs(tries, Math.random), signal);
    if (signal.aborted) break;
  }
  throw new CniError(
    ErrorCode.TryAgainLater,
    `IPPool "${name}" keeps changing: ${ip} cannot be set aside`,
  );
}

function sizeOf({ first, last }: Range): bigint {
  return last.value - first.value + 1n;
}

function isOver({ value }: PoolRecord): boolean {
  const aside = parseSetAside(value);
  return aside !== undefined && isSetAsideOver(aside);
}

function releasing({ key, value }: PoolRecord): PatchOperation[] {
  const path = allocationPath(key);
  return [{ op: "test", path, value }, { op: "remove", path }];
}

/** Ranges that contain the address too find out by themselves. */
async function deleteOwnReservation(
  { api, owner, settings: { isOverlapping, networkName } }: Session,
  { ip }: Conflict,
): Promise<void> {
  if (!isOverlapping) return;
  const name = reservationName(networkName, ip);
  const found = await api.findReservation(name);
  const { podref, ifname = owner.ifName } = found?.spec ?? {};
  const uid = found?.metadata?.uid;
  const isOwn = podref === owner.podref && ifname === owner.ifName;
  if (isOwn && uid) await api.deleteReservation(name, uid);
}
