/**
 * Releases the addresses of one IPAMClaim, for an administrator: the claim's next
 * pod gets others.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { type ApiClient, WhereaboutsApi } from "../api.ts";
import { ClaimApi } from "../claim_api.ts";
import { findClaimKey } from "../ipam_claim.ts";
import { allocationPath, type Reservation } from "../objects.ts";
import { listRecords, type PoolRecord } from "../pools.ts";
import { Cidr } from "../../../net/cidr.ts";
import { unlessNoAddress } from "../../../net/ip.ts";
import { claimOf, holderOf } from "./held.ts";

/** The addresses of a claim. */
export interface Holdings {
  readonly records: readonly (PoolRecord & { readonly pool: string })[];
  readonly reservations: readonly Reservation[];
  /** The addresses in the claim's status. */
  readonly ips: readonly string[];
  /** The pod that uses the claim; undefined if none does. */
  readonly pod: string | undefined;
}

/** A claim, and where it is looked for. */
export interface ClaimPlace {
  readonly client: ApiClient;
  /** Namespace of the pools. */
  readonly pools: string;
  readonly namespace: string;
  readonly name: string;
  readonly signal: AbortSignal;
}

/**
 * Finds what a claim has, also if it does not exist any more.
 *
 * @throws {KubeError}
 */
export async function findHoldings(
  { client, pools, namespace, name, signal }: ClaimPlace,
): Promise<Holdings> {
  const api = new WhereaboutsApi(client, pools, { signal });
  const claims = new ClaimApi(client, { signal });
  const records: (PoolRecord & { readonly pool: string })[] = [];
  for await (const pool of api.listPools()) {
    const cidr = unlessNoAddress(() => Cidr.parse(pool.spec.range));
    if (cidr === undefined) continue;
    for (const record of listRecords(pool, cidr, { warn: () => {} })) {
      const key = findClaimKey(record.value);
      if (key?.namespace !== namespace || key.name !== name) continue;
      records.push({ ...record, pool: pool.metadata?.name ?? "" });
    }
  }
  const claim = await claims.find(namespace, name);
  const uids = new Set([
    ...records.map(({ value }) => holderOf(value)),
    claim?.metadata?.uid,
  ]);
  const reservations: Reservation[] = [];
  for await (const one of api.listReservations()) {
    if (claimOf(one) && uids.has(claimOf(one))) reservations.push(one);
  }
  const holder = claim?.status?.ownerPod?.name;
  const pod = holder && await claims.findPod(namespace, holder);
  const phase = pod ? pod.status?.phase ?? "" : "Succeeded";
  const isLive = phase !== "Succeeded" && phase !== "Failed";
  return {
    records,
    reservations,
    ips: claim?.status?.ips ?? [],
    pod: isLive ? holder : undefined,
  };
}

/**
 * Releases what a claim has. The records go first: an ADD in between writes them
 * again, by the claim's status.
 *
 * @throws {CniError} 11 if a record has changed since
 * @throws {KubeError}
 */
export async function releaseHoldings(
  { client, pools, namespace, name, signal }: ClaimPlace,
  { records, reservations, ips }: Holdings,
): Promise<void> {
  const api = new WhereaboutsApi(client, pools, { signal });
  for (const { pool, key, value, ip } of records) {
    const path = allocationPath(key);
    const after = await api.patchPool(pool, [
      { op: "test", path, value },
      { op: "remove", path },
    ]);
    if (after !== undefined) continue;
    throw new CniError(
      ErrorCode.TryAgainLater,
      `the record of ${ip} in IPPool "${pool}" has changed meanwhile`,
    );
  }
  for (const { metadata } of reservations) {
    const { name = "", uid = "" } = metadata ?? {};
    await api.deleteReservation(name, uid);
    await api.dropFinalizer(name, uid);
  }
  if (ips.length === 0) return;
  await new ClaimApi(client, { signal }).patchStatus(namespace, name, [
    { op: "test", path: "/status/ips", value: ips },
    { op: "remove", path: "/status/ips" },
  ]);
}
