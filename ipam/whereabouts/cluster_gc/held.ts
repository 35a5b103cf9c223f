/**
 * Addresses that belong to IPAMClaims: which ones stay, and which ones have lost
 * their claim.
 *
 * @module
 */

import type { Log } from "../../../base/log/log.ts";
import type { ApiClient } from "../api.ts";
import {
  CLAIM_UID,
  type ClaimKey,
  findClaimKey,
  formatTime,
  type IpamClaim,
  STAY,
  UNUSED,
} from "../ipam_claim.ts";
import type { Allocation, Reservation } from "../objects.ts";
import { isNotFound } from "../../../kube/kube_error.ts";

/** An address that stays, and who has it. */
export interface HeldAddress {
  readonly ip: string;
  readonly pool: string;
  /** `NAMESPACE/NAME` of the claim. */
  readonly claim: string;
  /** `NAMESPACE/NAME` of the pod that has it; "" if none has. */
  readonly pod: string;
  /** `KIND/NAME` of the claim's owner; "" without one. */
  readonly owner: string;
  /** Since when no pod uses it, where a time counts; "" if one does. */
  readonly since: string;
  /** Until when it stays for the claim's next pod; "" as long as the claim exists. */
  readonly until: string;
  /** Why it stays. */
  readonly why: string;
}

/** The owner of a record or a reservation: a claim's UID, or a pod. */
export function holderOf(value: Pick<Allocation, "id" | "podref">): string {
  return findClaimKey(value)?.uid ?? value.podref;
}

/** The claim that a reservation belongs to; undefined if it is a pod's. */
export function claimOf({ metadata }: Reservation): string | undefined {
  return metadata?.annotations?.[CLAIM_UID];
}

/** Returns the name of a claim, for people. */
export function nameOf({ namespace, name }: ClaimKey): string {
  return `${namespace}/${name}`;
}

/** The claims of a cluster by UID. */
export type Claims = ReadonlyMap<string, IpamClaim>;

const CLAIMS = "/apis/k8s.cni.cncf.io/v1alpha1/ipamclaims";

/**
 * Lists the claims.
 *
 * @returns Undefined if their CRD is not installed: then nothing is known of them
 * @throws {KubeError}
 */
export async function listClaims(
  client: ApiClient,
  { signal, log }: {
    readonly signal: AbortSignal;
    readonly log: Pick<Log, "warn">;
  },
): Promise<Claims | undefined> {
  const claims = new Map<string, IpamClaim>();
  try {
    const pages = client.listPages<IpamClaim>(CLAIMS, { signal });
    for await (const { items = [] } of pages) {
      for (const claim of items) claims.set(claim.metadata?.uid ?? "", claim);
    }
    return claims;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    log.warn("Keeping the addresses of IPAMClaims, which cannot be listed", {
      error: "their CRD is not installed",
    });
    return undefined;
  }
}

/** Describes an address whose claim exists. */
export function describeHeld(
  { ip, pool, value }: {
    readonly ip: string;
    readonly pool: string;
    readonly value: Allocation;
  },
  claims: Claims | undefined,
): HeldAddress | undefined {
  const key = findClaimKey(value);
  if (key === undefined) return undefined;
  const claim = claims?.get(key.uid);
  if (claims !== undefined && claim === undefined) return undefined;
  const pod = claim?.status?.ownerPod?.name;
  const owner = claim?.metadata?.ownerReferences?.[0];
  const whose = owner ? ` of ${owner.kind} ${owner.name}` : "";
  const { since, until } = timeOf(claim);
  const when = until === ""
    ? ""
    : `, which no pod uses since ${since}, until ${until}`;
  return {
    ip,
    pool,
    claim: nameOf(key),
    pod: pod ? `${key.namespace}/${pod}` : "",
    owner: owner ? `${owner.kind}/${owner.name}` : "",
    since,
    until,
    why: `it stays for the IPAMClaim${whose}${when}`,
  };
}

/** The time of a claim that no pod uses, and that ends some time after that. */
function timeOf(
  claim: IpamClaim | undefined,
): { readonly since: string; readonly until: string } {
  const unused = claim?.status?.conditions?.find(({ type }) => type === UNUSED);
  const since = unused?.lastTransitionTime ?? "";
  const untilMs = Date.parse(since) +
    Number(claim?.metadata?.annotations?.[STAY.time]);
  return Number.isNaN(untilMs)
    ? { since: "", until: "" }
    : { since, until: formatTime(new Date(untilMs)) };
}
