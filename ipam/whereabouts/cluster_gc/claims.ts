/**
 * Addresses of IPAMClaims: persistent addresses, claims that end, and the release of a
 * claim's addresses by an administrator.
 *
 * @module
 */

import { LONGEST_STAY_MS } from "../../../base/duration.ts";
import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import { formatTime } from "../../../base/time.ts";
import type { Log } from "../../../base/log/log.ts";
import { isNotFound, type KubeError } from "../../../kube/kube_error.ts";
import { apiPath } from "../../../kube/request.ts";
import type { ObjectMeta } from "../../../kube/types.ts";
import { Cidr } from "../../../net/cidr.ts";
import { unlessNoAddress } from "../../../net/ip.ts";
import { type ApiClient, WhereaboutsApi } from "../api.ts";
import {
  ALL_CLAIMS,
  ClaimApi,
  hasEnded,
  podAddressesOf,
} from "../claims/api.ts";
import {
  CLAIM_UID,
  type ClaimKey,
  findClaimKey,
  type IpamClaim,
  isOfApps,
  PERSISTENCE,
  UNUSED,
  unusedNow,
} from "../claims/ipam_claim.ts";
import {
  type Allocation,
  allocationPath,
  type Reservation,
} from "../objects.ts";
import { listRecords, type PoolRecord } from "../pools.ts";
import { attempt, type Released } from "./released.ts";

/** An address that is kept even without a pod, and its claim. */
export interface HeldAddress {
  readonly ip: string;
  readonly pool: string;
  /** `NAMESPACE/NAME` of the claim. */
  readonly claim: string;
  /** `NAMESPACE/NAME` of the pod that has the address; "" without a pod. */
  readonly pod: string;
  /** `KIND/NAME` of the claim's owner; "" without an owner. */
  readonly owner: string;
  /** When the last pod ended, if the claim has a `stayTime`; otherwise "". */
  readonly since: string;
  /** Until when it is kept for the claim's next pod; "" while the claim exists. */
  readonly until: string;
  /** Why it is kept. */
  readonly why: string;
}

/** The owner of a record or a reservation: a claim's UID, or a pod. */
export function ownerOf(value: Pick<Allocation, "id" | "podref">): string {
  return findClaimKey(value)?.uid ?? value.podref;
}

/** The claim that a reservation belongs to; undefined if it is a pod's. */
export function claimOf({ metadata }: Reservation): string | undefined {
  return metadata?.annotations?.[CLAIM_UID];
}

/** Formats the name of a claim. */
export function nameOf({ namespace, name }: ClaimKey): string {
  return `${namespace}/${name}`;
}

/** The claims of a cluster by UID. */
export type Claims = ReadonlyMap<string, IpamClaim>;

/**
 * Lists the claims.
 *
 * @returns Undefined if their CRD is not installed
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
    const pages = client.listPages<IpamClaim>(ALL_CLAIMS, { signal });
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

/** Describes an address of an existing claim. */
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
  const unused = unusedTimeOf(claim);
  const since = unused?.since ?? "";
  const until = unused ? formatTime(new Date(unused.untilMs)) : "";
  const when = until === ""
    ? ""
    : `, which no pod has used since ${since}, until ${until}`;
  return {
    ip,
    pool,
    claim: nameOf(key),
    pod: pod ? `${key.namespace}/${pod}` : "",
    owner: owner ? `${owner.kind}/${owner.name}` : "",
    since,
    until,
    why: `it is reserved for the IPAMClaim${whose}${when}`,
  };
}

/**
 * Returns since when no pod uses a claim, and until when the claim is kept; undefined
 * if no time counts, or if the time in its annotation is invalid.
 */
function unusedTimeOf(
  claim: IpamClaim | undefined,
): { readonly since: string; readonly untilMs: number } | undefined {
  const unused = claim?.status?.conditions?.find(({ type }) => type === UNUSED);
  const since = unused?.lastTransitionTime ?? "";
  const untilMs = Date.parse(since) + (stayTimeMs(claim) ?? NaN);
  return Number.isNaN(new Date(untilMs).getTime())
    ? undefined
    : { since, untilMs };
}

/** Returns how long a claim is kept that no pod uses; undefined if that is invalid. */
function stayTimeMs(claim: IpamClaim | undefined): number | undefined {
  const text = claim?.metadata?.annotations?.[PERSISTENCE.time] ?? "";
  const ms = /^\d+$/.test(text) ? Number(text) : NaN;
  return ms <= LONGEST_STAY_MS ? ms : undefined;
}

/** A claim that ends. */
export interface ExpiredClaim {
  readonly claim: IpamClaim;
  readonly why: string;
}

/** The claims of `stay` that change. */
export interface Expiry {
  readonly expired: readonly ExpiredClaim[];
  /** Claims without a start of their time, because their last pod ended without DEL. */
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
  readonly log: Pick<Log, "warn">;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
}

/**
 * Finds the claims that end. A pod that has the name, or the addresses, keeps its
 * claim. A claim that cannot be judged is kept, with a warning.
 */
export async function findExpired(query: ExpiryQuery): Promise<Expiry> {
  const { claims, isLive, isUsed, log } = query;
  const expired: ExpiredClaim[] = [];
  const abandoned: IpamClaim[] = [];
  const sets = new StatefulSets(query);
  for (const claim of claims.values()) {
    const { namespace, name, annotations = {} } = claim.metadata ?? {};
    const pod = annotations[PERSISTENCE.pod];
    if (pod === undefined || isLive(`${namespace}/${pod}`)) continue;
    if (claim.status?.ips?.some(isUsed)) continue;
    if (annotations[PERSISTENCE.time] === undefined) {
      const why = await whySetEnds(claim, pod, sets);
      if (why !== undefined) expired.push({ claim, why });
      continue;
    }
    const unused = unusedTimeOf(claim);
    if (stayTimeMs(claim) === undefined) {
      log.warn("Keeping an IPAMClaim with an invalid annotation", {
        claim: `${namespace}/${name}`,
        annotation: PERSISTENCE.time,
      });
    } else if (unused === undefined) abandoned.push(claim);
    else if (unused.untilMs <= query.nowMs) {
      expired.push({
        claim,
        why: "no pod has used it for longer than its stayTime",
      });
    }
  }
  return { expired, abandoned };
}

/** Source: k8s.io/api/apps/v1/types.go `StatefulSetSpec`. */
interface StatefulSet {
  readonly metadata?: ObjectMeta;
  readonly spec?: {
    readonly replicas?: number;
    readonly ordinals?: { readonly start?: number };
  };
}

/** Reads each StatefulSet once. */
class StatefulSets {
  readonly #query: Pick<ExpiryQuery, "client" | "signal" | "log">;
  readonly #read = new Map<
    string,
    Promise<StatefulSet | "absent" | "unknown">
  >();

  constructor(query: Pick<ExpiryQuery, "client" | "signal" | "log">) {
    this.#query = query;
  }

  /** Returns a set, or why there is none: `unknown` if it cannot be read. */
  get(
    namespace: string,
    name: string,
  ): Promise<StatefulSet | "absent" | "unknown"> {
    const key = `${namespace}/${name}`;
    const reading = this.#read.get(key) ?? this.#request(namespace, name);
    this.#read.set(key, reading);
    return reading;
  }

  async #request(
    namespace: string,
    name: string,
  ): Promise<StatefulSet | "absent" | "unknown"> {
    const { client, signal, log } = this.#query;
    const place = ["namespaces", namespace, "statefulsets", name];
    try {
      // Throws if the name, which users can choose, would change the path.
      const path = apiPath("/apis/apps/v1", ...place);
      return await client.request<StatefulSet>({ path }, { signal });
    } catch (error) {
      signal.throwIfAborted();
      if (isNotFound(error) && (error as KubeError).reason === "NotFound") {
        return "absent";
      }
      log.warn("Keeping the IPAMClaims of a StatefulSet that cannot be read", {
        set: `${namespace}/${name}`,
        error: describeError(error),
      });
      return "unknown";
    }
  }
}

/**
 * Returns why a claim for a pod of a StatefulSet ends after the pod; undefined if it
 * is kept. Claims for sets of other API groups end only with their sets.
 */
async function whySetEnds(
  { metadata }: IpamClaim,
  pod: string,
  sets: StatefulSets,
): Promise<string | undefined> {
  const { namespace = "", annotations, ownerReferences = [] } = metadata ?? {};
  const [, ordinal] = /-(\d+)$/.exec(pod) ?? [];
  const owner = ownerReferences.find((one) =>
    one.kind === "StatefulSet" && isOfApps(one)
  );
  const isScalable = annotations?.[PERSISTENCE.scaled] === "delete";
  // Claims with an owner are deleted with it. `kubectl delete --cascade=orphan`
  // removes the owner from the claim.
  const isOrphan = ownerReferences.length === 0;
  if (!isOrphan && !(isScalable && owner)) return undefined;
  const name = owner?.name ?? annotations?.[PERSISTENCE.set] ?? "";
  const set = name === "" ? "unknown" : await sets.get(namespace, name);
  if (set === "unknown") return undefined;
  if (set === "absent") {
    return isOrphan ? "its StatefulSet no longer exists" : undefined;
  }
  if (!isScalable || owner && set.metadata?.uid !== owner.uid) return undefined;
  const { replicas = 1, ordinals } = set.spec ?? {};
  const isBeyond = Number(ordinal) >= (ordinals?.start ?? 0) + replicas;
  return isBeyond ? "its StatefulSet is scaled down" : undefined;
}

/**
 * Deletes the claims that end, unless they have changed since, and starts the time of
 * the abandoned claims. Failures are part of the outcome.
 *
 * @returns The deleted claims, and the claims that could not be changed
 */
export async function endClaims(
  { expired, abandoned }: Expiry,
  client: ApiClient,
  signal: AbortSignal,
): Promise<Released<ExpiredClaim>[]> {
  const api = new ClaimApi(client, { signal });
  const ended: Released<ExpiredClaim>[] = [];
  for (const claim of abandoned) {
    const why = "its last pod ended without a DEL";
    const { problem } = await attempt(claim, () => beginTime(claim, api));
    signal.throwIfAborted();
    if (problem !== undefined) ended.push({ what: { claim, why }, problem });
  }
  for (const what of expired) {
    let isDeleted = true;
    const outcome = await attempt(what, async () => {
      isDeleted = await api.deleteAsRead(what.claim);
    });
    signal.throwIfAborted();
    if (isDeleted) ended.push(outcome);
  }
  return ended;
}

/** Notes in a claim's status that no pod uses it from now on. */
async function beginTime(
  { metadata, status }: IpamClaim,
  api: ClaimApi,
): Promise<void> {
  const { namespace = "", name = "", resourceVersion } = metadata ?? {};
  await api.patchStatus(namespace, name, [
    {
      op: "test",
      path: "/metadata/resourceVersion",
      value: resourceVersion,
    },
    // A late DEL then fails its test, and changes nothing.
    ...status?.ownerPod
      ? [{ op: "remove", path: "/status/ownerPod" } as const]
      : [],
    // A claim whose first ADD did not finish has no status.
    ...Object.keys(status ?? {}).length > 0
      ? []
      : [{ op: "add", path: "/status", value: {} } as const],
    {
      op: "add",
      path: "/status/conditions",
      value: [...status?.conditions ?? [], unusedNow()],
    },
  ]);
}

/** The addresses of a claim. */
export interface ClaimAddresses {
  readonly records: readonly (PoolRecord & { readonly pool: string })[];
  readonly reservations: readonly Reservation[];
  /** The addresses in the claim's status. */
  readonly ips: readonly string[];
  /** All addresses, without prefix lengths. */
  readonly addresses: readonly string[];
  /** A pod that uses the claim or has an address of it, if any. */
  readonly pod: string | undefined;
}

/** Identifies a claim, and its cluster. */
export interface ClaimLookup {
  readonly client: ApiClient;
  /** Namespace of the pools. */
  readonly pools: string;
  readonly namespace: string;
  readonly name: string;
  readonly signal: AbortSignal;
}

/**
 * Finds the addresses of a claim, even if the claim no longer exists.
 *
 * @throws {KubeError}
 */
export async function findClaimAddresses(
  { client, pools, namespace, name, signal }: ClaimLookup,
): Promise<ClaimAddresses> {
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
    ...records.map(({ value }) => ownerOf(value)),
    claim?.metadata?.uid,
  ]);
  const reservations: Reservation[] = [];
  for await (const one of api.listReservations()) {
    if (claimOf(one) && uids.has(claimOf(one))) reservations.push(one);
  }
  const ips = claim?.status?.ips ?? [];
  const all = [
    ...records.map(({ ip }) => String(ip)),
    ...ips.map((one) => one.split("/")[0] ?? ""),
  ];
  // The claim might have been deleted or created again while a pod runs.
  const holder = claim?.status?.ownerPod?.name;
  const pod = (await claims.listPods(namespace, "")).find((pod) =>
    !hasEnded(pod) && (pod.metadata?.name === holder ||
      podAddressesOf(pod).some((address) => all.includes(address)))
  );
  return {
    records,
    reservations,
    ips,
    addresses: [...new Set(all)],
    pod: pod?.metadata?.name,
  };
}

/**
 * Releases the addresses of a claim. The records are removed first: a concurrent ADD
 * restores them from the claim's status.
 *
 * @throws {CniError} 11 if a record has changed since, or a reservation remains
 * @throws {KubeError}
 */
export async function releaseClaimAddresses(
  { client, pools, namespace, name, signal }: ClaimLookup,
  { records, reservations, ips }: ClaimAddresses,
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
      `the record of ${ip} in IPPool "${pool}" changed during the release`,
    );
  }
  for (const { metadata } of reservations) {
    const { name = "", uid = "" } = metadata ?? {};
    await api.deleteClaimReservation(name, uid);
  }
  if (ips.length === 0) return;
  await new ClaimApi(client, { signal }).patchStatus(namespace, name, [
    { op: "test", path: "/status/ips", value: ips },
    { op: "remove", path: "/status/ips" },
  ]);
}
