/**
 * Releases the addresses of one IPAMClaim that does not exist any more.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import type { WhereaboutsApi } from "./api.ts";
import { addressesOf, type ClaimApi, hasEnded } from "./claim_api.ts";
import { findHeld } from "./held_records.ts";
import { CLAIM_UID, type NotedClaim } from "./ipam_claim.ts";
import { reservationName } from "./names.ts";
import { allocationPath } from "./objects.ts";

/** Why nothing was released, or that it was. */
export type GoneOutcome = "exists" | "used" | "released";

/**
 * Releases the addresses, unless the claim exists or a pod has one of them. Several
 * callers may do it at the same time: each write tests what it removes.
 *
 * @throws {KubeError}
 */
export async function releaseGone(
  { namespace, name, uid, ips, networkName }: NotedClaim,
  api: WhereaboutsApi,
  claims: ClaimApi,
): Promise<GoneOutcome> {
  const found = await claims.find(namespace, name);
  if (found?.metadata?.uid === uid) return "exists";
  // A claim is for pods of its namespace.
  const used = (await claims.listPods(namespace, ""))
    .filter((pod) => !hasEnded(pod)).flatMap(addressesOf);
  const all = ips.map((text) => Cidr.parse(text));
  if (all.some(({ ip }) => used.includes(String(ip)))) return "used";
  for (const address of all) {
    const key = { namespace, name, uid };
    const held = await findHeld(api, networkName, key, address);
    if (held !== undefined) {
      const path = allocationPath(held.key);
      await api.patchPool(held.pool, [
        { op: "test", path, value: held.value },
        { op: "remove", path },
      ]);
    }
    const reserved = reservationName(networkName, address.ip);
    const { metadata } = await api.findReservation(reserved) ?? {};
    if (metadata?.annotations?.[CLAIM_UID] !== uid) continue;
    await api.deleteReservation(reserved, metadata.uid ?? "");
    await api.dropFinalizer(reserved, metadata.uid ?? "");
  }
  return "released";
}
