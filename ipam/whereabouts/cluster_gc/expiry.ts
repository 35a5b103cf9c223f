/**
 * IPAMClaims that the plugin has created, and that end: those that no pod has used
 * for their time, and those of pods that a StatefulSet was scaled down by.
 *
 * @module
 */

import type { ApiClient } from "../api.ts";
import { ClaimApi } from "../claim_api.ts";
import { type IpamClaim, STAY, UNUSED, unusedNow } from "../ipam_claim.ts";
import { isNotFound } from "../../../kube/kube_error.ts";
import { apiPath } from "../../../kube/request.ts";
import type { ObjectMeta } from "../../../kube/types.ts";
import type { Claims } from "./held.ts";

/** A claim that ends. */
export interface ExpiredClaim {
  readonly claim: IpamClaim;
  readonly why: string;
}

/** Outcomes of the claims that the plugin has created. */
export interface Expiry {
  readonly expired: readonly ExpiredClaim[];
  /** Their time begins now: their last pod ended without a DEL. */
  readonly abandoned: readonly IpamClaim[];
}

/** The input of {@linkcode findExpired}. */
export interface ExpiryQuery {
  readonly claims: Claims;
  readonly client: ApiClient;
  /** Reports whether a pod has not ended. */
  readonly isLive: (podref: string) => boolean;
  /** Reports whether a pod has an address, with a prefix length. */
  readonly isUsed: (address: string) => boolean;
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
}

/**
 * Finds the claims that end. A pod that has the name, or the addresses, keeps its
 * claim.
 *
 * @throws {KubeError}
 */
export async function findExpired(query: ExpiryQuery): Promise<Expiry> {
  const { claims, isLive, isUsed } = query;
  const expired: ExpiredClaim[] = [];
  const abandoned: IpamClaim[] = [];
  for (const claim of claims.values()) {
    const { namespace, annotations = {} } = claim.metadata ?? {};
    const pod = annotations[STAY.pod];
    if (pod === undefined || isLive(`${namespace}/${pod}`)) continue;
    if (claim.status?.ips?.some(isUsed)) continue;
    const unusedMs = readUnused(claim, query.nowMs);
    const isTimed = annotations[STAY.time] !== undefined;
    if (isTimed && unusedMs === undefined) abandoned.push(claim);
    else if (isTimed && unusedMs !== undefined && unusedMs >= 0) {
      expired.push({ claim, why: "no pod has used it for its time" });
    } else if (await isScaledAway(claim, pod, query)) {
      expired.push({ claim, why: "its StatefulSet is scaled down" });
    }
  }
  return { expired, abandoned };
}

/** @returns Milliseconds since the claim's time is over; negative before */
function readUnused(
  { metadata, status }: IpamClaim,
  nowMs: number,
): number | undefined {
  const unused = status?.conditions?.find(({ type }) => type === UNUSED);
  const sinceMs = Date.parse(unused?.lastTransitionTime ?? "");
  if (Number.isNaN(sinceMs)) return undefined;
  return nowMs - sinceMs - Number(metadata?.annotations?.[STAY.time]);
}

/** Source: k8s.io/api/apps/v1/types.go `StatefulSetSpec`. */
interface StatefulSet {
  readonly metadata?: ObjectMeta;
  readonly spec?: {
    readonly replicas?: number;
    readonly ordinals?: { readonly start?: number };
  };
}

async function isScaledAway(
  { metadata }: IpamClaim,
  pod: string,
  { client, signal }: ExpiryQuery,
): Promise<boolean> {
  const { namespace = "", annotations, ownerReferences = [] } = metadata ?? {};
  const owner = ownerReferences.find(({ kind }) => kind === "StatefulSet");
  if (annotations?.[STAY.scaled] !== "delete" || !owner) return false;
  const ordinal = Number(/-(\d+)$/.exec(pod)?.[1]);
  try {
    const path = apiPath(
      `/apis/${owner.apiVersion}`,
      ...["namespaces", namespace, "statefulsets", owner.name],
    );
    const set = await client.request<StatefulSet>({ path }, { signal });
    if (set.metadata?.uid !== owner.uid) return false;
    const { replicas = 1, ordinals } = set.spec ?? {};
    return ordinal >= (ordinals?.start ?? 0) + replicas;
  } catch (error) {
    // Kubernetes deletes what a set that is gone has owned.
    if (isNotFound(error)) return false;
    throw error;
  }
}

/**
 * Deletes the claims that end, unless they have changed since, and lets the time
 * of the others begin.
 *
 * @returns The deleted ones
 * @throws {KubeError}
 */
export async function endClaims(
  { expired, abandoned }: Expiry,
  client: ApiClient,
  signal: AbortSignal,
): Promise<ExpiredClaim[]> {
  const api = new ClaimApi(client, { signal });
  for (const { metadata, status } of abandoned) {
    const { namespace = "", name = "", resourceVersion } = metadata ?? {};
    await api.patchStatus(namespace, name, [
      {
        op: "test",
        path: "/metadata/resourceVersion",
        value: resourceVersion,
      },
      // A late DEL finds that it has been done.
      ...status?.ownerPod
        ? [{ op: "remove", path: "/status/ownerPod" } as const]
        : [],
      { op: "add", path: "/status/conditions/-", value: unusedNow() },
    ]);
  }
  const ended: ExpiredClaim[] = [];
  for (const one of expired) {
    if (await api.deleteAsRead(one.claim)) ended.push(one);
  }
  return ended;
}
