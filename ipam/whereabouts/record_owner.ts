/**
 * The owner of an address's record in a pool: a pod's, or an IPAMClaim's.
 *
 * @module
 */

import type { ObjectMeta } from "../../kube/types.ts";
import { CLAIM_UID, KEEP } from "./claims/ipam_claim.ts";
import type { Allocation, Reservation } from "./objects.ts";
import type { PoolRecord } from "./pools.ts";

/** The owner of the records and reservations that a call makes. */
export interface RecordOwner {
  /** The record to write. */
  readonly record: Required<Allocation>;
  /**
   * Whether records outlive the call that creates them: then several calls can share
   * a record, and no call gives it back.
   */
  readonly isLasting: boolean;
  /** Whether a record with another interface may be taken over. */
  readonly mayRename: boolean;
  /** Lists the owner's records. */
  list(records: readonly PoolRecord[]): readonly PoolRecord[];
  /** Reports whether a reservation is the owner's. */
  owns(reservation: Reservation): boolean;
  /** Fields of the owner's reservations other than the name. */
  readonly metadata?: ObjectMeta;
}

/** Returns the owner that is the sandbox of a pod. */
export function podOwner(record: Required<Allocation>): RecordOwner {
  const { podref, ifname } = record;
  return {
    record,
    isLasting: false,
    mayRename: true,
    list(records): readonly PoolRecord[] {
      const ofPod = records.filter(({ value }) => value.podref === podref);
      // Old releases did not record the interface.
      const [only, ...others] = ofPod;
      const isOld = others.length === 0 && only?.value.ifname === undefined;
      return isOld
        ? ofPod
        : ofPod.filter(({ value }) => value.ifname === ifname);
    },
    owns: ({ spec }) =>
      spec.podref === podref && (spec.ifname ?? ifname) === ifname,
  };
}

/**
 * Returns the owner that is a claim.
 *
 * @param uid The claim's
 * @param mayRename Whether no pod uses the claim's interface under its old name
 */
export function claimOwner(
  record: Required<Allocation>,
  uid: string,
  mayRename: boolean,
): RecordOwner {
  return {
    record,
    isLasting: true,
    mayRename,
    list: (records) => records.filter(({ value }) => value.id === record.id),
    owns: ({ metadata }) => metadata?.annotations?.[CLAIM_UID] === uid,
    metadata: { annotations: { [CLAIM_UID]: uid }, finalizers: [KEEP] },
  };
}
