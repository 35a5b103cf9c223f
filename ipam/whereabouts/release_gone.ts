/**
 * Releases the addresses of one IPAMClaim that does not exist any more.
 *
 * @module
 */

import type { Pod } from "../../kube/types.ts";
import { Cidr } from "../../net/cidr.ts";
import type { WhereaboutsApi } from "./api.ts";
import type { ClaimApi } from "./claim_api.ts";
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
  const used = (await claims.listPods(namespace, "")).flatMap(listUsed);
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

const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/** Lists the addresses of a pod that has not ended. */
function listUsed({ metadata, status }: Pod): string[] {
  if (["Succeeded", "Failed"].includes(status?.phase ?? "")) return [];
  try {
    const networks: readonly { readonly ips?: readonly string[] }[] = JSON
      .parse(metadata?.annotations?.[NETWORK_STATUS] ?? "[]");
    return networks.flatMap(({ ips = [] }) => ips);
  } catch {
    return [];
  }
}
