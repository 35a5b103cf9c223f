/**
 * Compares the pools of whereabouts with the pods of the cluster.
 *
 * The order of the lists makes this safe while pods start and stop: a record is written
 * after its pod was created, so a record belongs to a deleted pod if a later list lacks
 * the pod.
 *
 * @module
 */

import type { Log } from "../../../base/log/log.ts";
import { type ApiClient, WhereaboutsApi } from "../api.ts";
import {
  attachedAddressesOf,
  hasEnded,
  podAddressesOf,
} from "../claims/api.ts";
import { CLAIM_UID, findClaimKey } from "../claims/ipam_claim.ts";
import {
  type Allocation,
  isReservationOf,
  type Reservation,
} from "../objects.ts";
import { listRecords } from "../pools.ts";
import { isSetAsideOver, parseSetAside } from "../set_aside_record.ts";
import { hasStatus } from "../../../kube/kube_error.ts";
import type { Pod } from "../../../kube/types.ts";
import { Cidr } from "../../../net/cidr.ts";
import { unlessNoAddress } from "../../../net/ip.ts";
import {
  claimOf,
  type Claims,
  describeHeld,
  type Expiry,
  findExpired,
  type HeldAddress,
  listClaims,
  nameOf,
  ownerOf,
} from "./claims.ts";
import { formatTime } from "../../../base/time.ts";

/** An address without a pod. */
export interface StaleRecord {
  readonly pool: string;
  readonly key: string;
  readonly ip: string;
  readonly value: Allocation;
  /** The reason, such as `the pod was deleted`. */
  readonly why: string;
}

/** A reservation without a pod. */
export interface StaleReservation {
  readonly name: string;
  readonly uid: string;
  readonly podref: string;
  /** UID of its IPAMClaim, if any; then it has a finalizer. */
  readonly claim?: string | undefined;
  readonly why: string;
}

/** A pool, and how full it is. */
export interface PoolCount {
  readonly pool: string;
  readonly range: string;
  readonly allocations: number;
}

/** The outcome of a comparison. */
export interface Survey {
  readonly pools: readonly PoolCount[];
  readonly records: readonly StaleRecord[];
  readonly reservations: readonly StaleReservation[];
  /** Persistent addresses, and addresses that are set aside. */
  readonly held: readonly HeldAddress[];
  /** Reservations of IPAMClaims that other programs have deleted. */
  readonly deleted: readonly Reservation[];
  /** IPAMClaims that end. */
  readonly expiry: Expiry;
}

/** A record, and its pool. */
type PlacedRecord = Omit<StaleRecord, "why">;

/** The parts of a pod that a comparison needs: all pods of a cluster are kept. */
interface PodState {
  readonly status: { readonly phase: string };
  /** Its known addresses. */
  readonly ips: readonly string[];
  /**
   * The addresses in its network status. The kubelet can still report the address of an
   * earlier sandbox, which does not prove that a different address is stale.
   */
  readonly attached: readonly string[];
}

/** The input of {@linkcode surveyPools}. */
export interface SurveyOptions {
  readonly client: ApiClient;
  /** Namespace of the pools. */
  readonly namespace: string;
  readonly log: Pick<Log, "info" | "warn">;
  readonly signal: AbortSignal;
}

/** How often to list if a list cannot be continued. */
const MAX_LISTS = 3;

/**
 * Finds the addresses and reservations of pods that were deleted or have terminated.
 * Addresses of other pods are never listed, whatever the pod's phase, and whether or not
 * the pod's status has the address. The exceptions are a second record of an interface
 * in a pool, if the pod's network status has the first, and reservations without a record.
 *
 * @throws {KubeError} If a list cannot be read
 */
export async function surveyPools(options: SurveyOptions): Promise<Survey> {
  for (let lists = 1;; lists++) {
    try {
      return await survey(options);
    } catch (error) {
      // The server has forgotten the version of the list's first page.
      if (!hasStatus(error, 410) || lists === MAX_LISTS) throw error;
    }
  }
}

/** Returns records and reservations that are stale, and unchanged, in both surveys. */
export function staleInBoth(earlier: Survey, later: Survey): Survey {
  const earlierIds = new Set(earlier.records.map(identify));
  const { lasting = [], younger = [] } = Object.groupBy(
    later.records,
    (record) => earlierIds.has(identify(record)) ? "lasting" : "younger",
  );
  // A reservation is kept while its record is kept.
  const keptOwners = new Set(younger.map(({ value }) => ownerOf(value)));
  const uids = new Set(earlier.reservations.map(({ uid }) => uid));
  return {
    ...later,
    records: lasting,
    reservations: later.reservations.filter(({ uid, podref, claim }) =>
      uids.has(uid) && !keptOwners.has(claim ?? podref)
    ),
  };
}

function identify({ pool, key, value: { id, podref } }: StaleRecord): string {
  return [pool, key, id, podref].join(" ");
}

async function survey(options: SurveyOptions): Promise<Survey> {
  const { client, namespace, log, signal } = options;
  const api = new WhereaboutsApi(client, namespace, { signal });
  const reservations: Reservation[] = [];
  for await (const one of api.listReservations()) reservations.push(one);
  const pools: PoolCount[] = [];
  const records: PlacedRecord[] = [];
  // Pods with records of unknown addresses.
  const unplaced = new Set<string>();
  for await (const pool of api.listPools()) {
    const name = pool.metadata?.name ?? "";
    const { range, allocations = {} } = pool.spec;
    const cidr = unlessNoAddress(() => Cidr.parse(range));
    if (cidr === undefined) {
      log.warn("Ignoring a pool without a valid range", { pool: name, range });
    }
    const placed = cidr ? listRecords(pool, cidr, log) : [];
    const keys = new Set(placed.map(({ key }) => key));
    for (const [key, { podref }] of Object.entries(allocations)) {
      if (!keys.has(key)) unplaced.add(podref);
    }
    if (cidr === undefined) continue;
    pools.push({ pool: name, range, allocations: placed.length });
    for (const { key, ip, value } of placed) {
      records.push({ pool: name, key, ip: String(ip), value });
    }
  }
  const podrefs = new Set([
    ...records.map(({ value }) => value.podref),
    ...reservations.map(({ spec }) => spec.podref),
  ]);
  const hasClaims = records.some(({ value }) => findClaimKey(value)) ||
    reservations.some(claimOf);
  const claims = hasClaims ? await listClaims(client, options) : undefined;
  const pods = await listPods(client, podrefs, signal);
  const stale = [
    ...findStale(records, pods),
    ...claims ? findUnclaimed(records, claims, pods) : [],
  ];
  const used = listUsed(pods);
  const expiry = claims === undefined
    ? { expired: [], abandoned: [] }
    : await findExpired({
      claims,
      client,
      isLive: (podref) => !whyEnded(podref, pods),
      isUsed: (address) => used.has(address.split("/")[0] ?? ""),
      signal,
      log,
      nowMs: Date.now(),
    });
  const ofClaims = reservations.filter(claimOf);
  const ofPods = reservations.filter((one) => !claimOf(one));
  const isThere = (one: Reservation): boolean =>
    claims === undefined || claims.has(claimOf(one) ?? "");
  return {
    pools,
    records: stale,
    reservations: [
      ...findStaleReservations(
        ofPods.filter(({ spec }) => !unplaced.has(spec.podref)),
        pods,
        { records, stale },
      ),
      ...ofClaims.filter((one) => !isThere(one))
        .flatMap((one) => describeUnclaimed(one, records, stale)),
    ],
    held: records.flatMap((record) =>
      describeHeld(record, claims) ?? describeSetAside(record) ?? []
    ),
    deleted: ofClaims.filter((one) =>
      isThere(one) && one.metadata?.deletionTimestamp !== undefined
    ),
    expiry,
  };
}

/** Lists the addresses of pods that have not ended. */
function listUsed(pods: ReadonlyMap<string, PodState>): Set<string> {
  return new Set(
    [...pods.values()].filter((pod) => !hasEnded(pod))
      .flatMap(({ ips }) => ips),
  );
}

/** Finds the records of deleted claims, except for addresses that a pod has. */
function findUnclaimed(
  records: readonly PlacedRecord[],
  claims: Claims,
  pods: ReadonlyMap<string, PodState>,
): StaleRecord[] {
  const used = listUsed(pods);
  return records.flatMap((record) => {
    const key = findClaimKey(record.value);
    const isStale = key !== undefined && !claims.has(key.uid) &&
      !used.has(record.ip);
    return isStale
      ? [{ ...record, why: `IPAMClaim ${nameOf(key)} no longer exists` }]
      : [];
  });
}

function describeUnclaimed(
  { metadata }: Reservation,
  records: readonly PlacedRecord[],
  stale: readonly StaleRecord[],
): StaleReservation[] {
  const { name = "", uid = "", annotations } = metadata ?? {};
  const claim = annotations?.[CLAIM_UID] ?? "";
  const isOf = ({ value }: PlacedRecord): boolean => ownerOf(value) === claim;
  // A pod still has the address.
  const isKept = records.filter(isOf).length > stale.filter(isOf).length;
  const why = "its IPAMClaim no longer exists";
  return isKept ? [] : [{ name, uid, podref: "", claim, why }];
}

/** Pods per page: they are large. */
const PODS_PER_PAGE = 250;

/** An empty podref, which a claim's record has, stands for all pods. */
async function listPods(
  client: ApiClient,
  podrefs: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Map<string, PodState>> {
  const pods = new Map<string, PodState>();
  const options = { signal, limit: PODS_PER_PAGE };
  for await (const { items = [] } of client.listPages<Pod>(PODS, options)) {
    for (const pod of items) {
      const podref = `${pod.metadata?.namespace}/${pod.metadata?.name}`;
      if (!podrefs.has(podref) && !podrefs.has("")) continue;
      pods.set(podref, {
        status: { phase: pod.status?.phase ?? "" },
        ips: podAddressesOf(pod),
        attached: attachedAddressesOf(pod),
      });
    }
  }
  return pods;
}

const PODS = "/api/v1/pods";

/** Returns why an address of a pod is stale; undefined if it is not. */
function whyEnded(
  podref: string,
  pods: ReadonlyMap<string, PodState>,
): string | undefined {
  // No pod can have such a name: an unknown program wrote the record.
  if (!/^[^/]+\/[^/]+$/.test(podref)) return undefined;
  const pod = pods.get(podref);
  if (pod === undefined) return "the pod was deleted";
  return hasEnded(pod)
    ? `the pod has terminated: ${pod.status?.phase}`
    : undefined;
}

function findStale(
  records: readonly PlacedRecord[],
  pods: ReadonlyMap<string, PodState>,
): StaleRecord[] {
  const interfaces = Map.groupBy(
    records,
    ({ pool, value: { podref, ifname = "" } }) => `${pool} ${podref} ${ifname}`,
  );
  return records.flatMap((record) => {
    const { pool, value: { podref, ifname = "" } } = record;
    const twins = interfaces.get(`${pool} ${podref} ${ifname}`) ?? [];
    const why = whyNoLongerSetAside(record) ?? whyEnded(podref, pods) ??
      whySuperseded(record, twins, pods.get(podref)?.attached ?? []);
    return why === undefined ? [] : [{ ...record, why }];
  });
}

function whyNoLongerSetAside({ value }: PlacedRecord): string | undefined {
  const aside = parseSetAside(value);
  return aside !== undefined && isSetAsideOver(aside)
    ? `it was set aside because of ${aside.mac} until ${
      formatTime(new Date(aside.untilMs))
    }`
    : undefined;
}

/** Describes an address that is set aside, because a different machine has it. */
function describeSetAside(
  { ip, pool, value }: PlacedRecord,
): HeldAddress | undefined {
  const aside = parseSetAside(value);
  if (aside === undefined || isSetAsideOver(aside)) return undefined;
  const { mac, sinceMs, untilMs } = aside;
  const until = formatTime(new Date(untilMs));
  return {
    ip,
    pool,
    claim: "",
    pod: "",
    owner: "",
    since: formatTime(new Date(sinceMs)),
    until,
    why: `it is set aside until ${until}: ${mac} has it`,
  };
}

/** An interface has one address of each pool, so other records are stale. */
function whySuperseded(
  { ip }: PlacedRecord,
  twins: readonly PlacedRecord[],
  ips: readonly string[],
): string | undefined {
  const other = twins.find((twin) => ips.includes(twin.ip));
  const isStale = other !== undefined && !ips.includes(ip);
  return isStale ? `the interface has ${other.ip}` : undefined;
}

/**
 * Finds the reservations of pods that have ended, of stale records, and without a
 * record: a record is written before its reservation.
 */
function findStaleReservations(
  reservations: readonly Reservation[],
  pods: ReadonlyMap<string, PodState>,
  { records, stale }: {
    readonly records: readonly PlacedRecord[];
    readonly stale: readonly StaleRecord[];
  },
): StaleReservation[] {
  const ofPod = ({ value }: PlacedRecord): string => value.podref;
  const recordsOf = Map.groupBy(records, ofPod);
  const staleOf = Map.groupBy(stale, ofPod);
  return reservations.flatMap(({ metadata, spec: { podref } }) => {
    const { name = "", uid = "" } = metadata ?? {};
    const isOfName = ({ ip }: PlacedRecord): boolean =>
      isReservationOf(name, ip);
    const why = whyEnded(podref, pods) ??
      (recordsOf.get(podref)?.some(isOfName)
        ? staleOf.get(podref)?.find(isOfName)?.why
        // Another program might have reserved the address under a different name.
        : pods.has(podref)
        ? "the pod has no record of the address"
        : undefined);
    return why === undefined ? [] : [{ name, uid, podref, why }];
  });
}
