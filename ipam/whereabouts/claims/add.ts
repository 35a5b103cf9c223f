/**
 * ADD of a pod whose addresses belong to an IPAMClaim.
 *
 * ```
 * pod ──reference──▶ IPAMClaim ◀──id── record in the pool
 *                     status.ips
 * ```
 *
 * @module
 */

import { CniError, describeError } from "../../../base/error.ts";
import { formatTime } from "../../../base/time.ts";
import type { IpConfig } from "../../../cni/result/result.ts";
import { suppressAnnouncement } from "../../../cni/result/announcement.ts";
import {
  CREATED_BY,
  evidenceOf,
  MIGRATION_JOB,
  type PodEvidence,
} from "../../../kube/pod_evidence.ts";
import { Cidr } from "../../../net/cidr.ts";
import { type ClaimApi, hasEnded } from "./api.ts";
import { ConflictError, inUseBy, notThere, outside, unfit } from "./errors.ts";
import { Claimer } from "./claimer.ts";
import { findReference, readEvidence, type Reference } from "./reference.ts";
import {
  type ClaimCondition,
  type ClaimKey,
  type IpamClaim,
  IPS_ALLOCATED,
  listIps,
  PERSISTENCE,
  recordOf,
  SANDBOX,
  sandboxOf,
  UNUSED,
} from "./ipam_claim.ts";
import type { PatchOperation } from "../../../kube/write.ts";
import { findClaimRecord, type Pool } from "../pools.ts";
import { RangeFullError } from "../range.ts";
import type { UsedClaim } from "../allocation_files.ts";
import { claimOwner } from "../record_owner.ts";
import { type Session, writeAllocationFile } from "../session.ts";

/** A claim that the pod may use. */
interface UsableClaim {
  readonly key: ClaimKey;
  readonly claim: IpamClaim;
  /** Name of the pod. */
  readonly pod: string;
  /** Whether another pod of the same virtual machine has the addresses. */
  readonly isAnnouncementSuppressed: boolean;
}

/** How often to begin again if another call writes the claim's status. */
const MAX_TRIES = 5;

/**
 * Gives the pod the addresses of its claim.
 *
 * @returns Undefined if it has no claim
 * @throws {CniError} 7 if the claim is not for this pod, or not for this network;
 *   11 if it does not exist, is in use, or a different attachment has its address
 * @throws {KubeError}
 */
export async function allocateByClaim(
  session: Session,
): Promise<IpConfig[] | undefined> {
  const api = session.claims();
  const reference = await findReference(session, api);
  if (reference === undefined) return undefined;
  for (let tries = 1;; tries++) {
    const usable = await findUsableClaim(session, api, reference);
    const ips = await allocateForClaim(session, api, usable);
    const isWritten = await writeStatus(
      api,
      usable,
      ips,
      session.owner.containerId,
    );
    if (!isWritten && tries < MAX_TRIES) continue;
    if (!isWritten) throw notThere(usable.key.name, "keeps changing");
    writeAllocationFile(session, {
      claims: [],
      ipamClaim: usedClaimOf(usable),
    });
    session.onClaim?.({
      ...usable.key,
      ips: ips.map(({ address }) => String(address)),
      networkName: session.settings.networkName,
      pools: session.api.namespace,
      kubeconfig: session.settings.kubeconfig,
    });
    return usable.isAnnouncementSuppressed
      ? ips.map(suppressAnnouncement)
      : ips;
  }
}

/** Reads the claim, and checks that the pod may use it. */
async function findUsableClaim(
  { call, owner }: Session,
  api: ClaimApi,
  { name, create, evidence: handed }: Reference,
): Promise<UsableClaim> {
  const [namespace = "", pod = ""] = owner.podref.split("/");
  const claim = await api.find(namespace, name) ?? await create?.() ??
    await (create && api.find(namespace, name));
  const { uid, deletionTimestamp, ownerReferences = [] } = claim?.metadata ??
    {};
  if (claim === undefined || uid === undefined) {
    throw notThere(name, `does not exist in namespace "${namespace}"`);
  }
  if (deletionTimestamp !== undefined) throw notThere(name, "is being deleted");
  const { network, interface: ifName } = claim.spec;
  if (network !== call.network) {
    throw unfit(name, `is for network "${network}"`);
  }
  if (ifName !== "" && ifName !== owner.ifName) {
    throw unfit(name, `is for interface "${ifName}"`);
  }
  let read: Promise<PodEvidence> | undefined;
  const evidence = (): Promise<PodEvidence> =>
    handed ? Promise.resolve(handed) : read ??= readEvidence(api, owner.podref);
  if (ownerReferences.length > 0) {
    const own = await evidence();
    if (!ownerReferences.some((one) => isControlled(own, one))) {
      const { kind, name: who } = ownerReferences[0] as {
        kind: string;
        name: string;
      };
      throw unfit(
        name,
        `belongs to ${kind} "${who}", which does not control the pod`,
      );
    }
  }
  const key = { namespace, name, uid };
  const isAnnouncementSuppressed = await isShared({
    api,
    key,
    claim,
    pod,
    evidence,
    call,
  });
  return { key, claim, pod, isAnnouncementSuppressed };
}

type OwnerReference = NonNullable<
  NonNullable<IpamClaim["metadata"]>["ownerReferences"]
>[number];

/** Reports whether an owner of the claim controls the pod. */
function isControlled(
  { uid, controller }: PodEvidence,
  owner: OwnerReference,
): boolean {
  if (owner.kind === "Pod") return owner.uid === uid;
  // A virtual machine's instance, of the same name, is created at each start.
  if (owner.kind === "VirtualMachine") {
    return controller?.kind === "VirtualMachineInstance" &&
      controller.name === owner.name;
  }
  return controller?.uid === owner.uid;
}

/** The input of {@linkcode isShared}. */
interface Sharing {
  readonly api: ClaimApi;
  readonly key: ClaimKey;
  readonly claim: IpamClaim;
  readonly pod: string;
  readonly evidence: () => Promise<PodEvidence>;
  readonly call: Session["call"];
}

/**
 * Reports whether a different pod of the same virtual machine has the addresses, as
 * during a live migration.
 *
 * @throws {CniError} 11 if a pod of a different machine has the addresses
 */
async function isShared(sharing: Sharing): Promise<boolean> {
  const { api, key: { namespace, name }, claim, pod, evidence } = sharing;
  const holder = claim.status?.ownerPod?.name ?? "";
  if (holder !== "" && holder !== pod) {
    const other = await api.findPod(namespace, holder);
    if (other !== undefined && !hasEnded(other)) {
      const [own, its] = [await evidence(), evidenceOf(other)];
      if (!isSameMachine(own, its)) throw inUseBy(name, holder);
      return true;
    }
  }
  return claim.status?.ips?.length ? await hasTwin(sharing) : false;
}

/**
 * Reports whether the machine has a different pod. Only the machine of a pod that was
 * created for a migration can have two pods; the label remains after the migration.
 */
async function hasTwin(
  { api, key: { namespace }, claim, pod, evidence, call: { log } }: Sharing,
): Promise<boolean> {
  if (!claim.metadata?.ownerReferences?.length) return false;
  const { labels: { [CREATED_BY]: machine, [MIGRATION_JOB]: job } } =
    await evidence();
  if (!machine || !job) return false;
  try {
    const pods = await api.listPods(namespace, `${CREATED_BY}=${machine}`);
    return pods.some((other) =>
      other.metadata?.name !== pod && !hasEnded(other)
    );
  } catch (error) {
    log.warn(
      "Cannot determine whether the virtual machine runs on another node",
      {
        error: describeError(error),
      },
    );
    return true;
  }
}

function isSameMachine(one: PodEvidence, other: PodEvidence): boolean {
  return one.controller?.kind === "VirtualMachineInstance" &&
    one.controller.uid === other.controller?.uid;
}

/** Allocates the addresses, or finds existing allocations. */
async function allocateForClaim(
  session: Session,
  api: ClaimApi,
  usable: UsableClaim,
): Promise<IpConfig[]> {
  const { settings, owner, signal, call: { log } } = session;
  const { key, claim, pod, isAnnouncementSuppressed } = usable;
  const isOwn = claim.status?.ownerPod?.name === pod;
  const claimer = new Claimer({
    api: session.api,
    owner: claimOwner(
      recordOf(key, owner.ifName),
      key.uid,
      !isAnnouncementSuppressed && !isOwn,
    ),
    networkName: settings.networkName,
    isOverlapping: settings.isOverlapping,
    signal,
    log,
  });
  try {
    const { places, moved } = assign(listIps(claim), await session.pools());
    for (const address of moved) await requireRecord(session, key, address);
    const ips = [...moved];
    for (const { pool, wanted } of places) {
      const { ip } = await claimer.claim(pool, wanted?.ip);
      ips.push(wanted ?? Cidr.of(ip, pool.range.prefixLength));
    }
    const { gateway } = settings;
    return ips.map((address) => ({
      address,
      gateway: gateway?.family === address.family ? gateway : undefined,
    }));
  } catch (error) {
    const reason = reasonOf(error);
    if (reason !== undefined) await reportFailure(api, usable, reason, error);
    throw error;
  }
}

/** A pool, and the address of the claim in its range. */
interface Place {
  readonly pool: Pool;
  readonly wanted: Cidr | undefined;
}

/**
 * Finds the range of each address. An address outside all ranges, because the ranges
 * have changed, takes the place of a range of its family.
 */
function assign(
  ips: readonly Cidr[],
  pools: readonly Pool[],
): { readonly places: readonly Place[]; readonly moved: readonly Cidr[] } {
  const left = [...ips];
  const take = (fits: (address: Cidr) => boolean): Cidr | undefined => {
    const index = left.findIndex(fits);
    return index < 0 ? undefined : left.splice(index, 1)[0];
  };
  const found = pools.map((pool) => ({
    pool,
    wanted: take(({ ip }) => pool.range.cidr.contains(ip)),
  }));
  const moved = [...left];
  const places = found.filter(({ pool, wanted }) =>
    wanted !== undefined ||
    take(({ family }) => family === pool.range.cidr.family) === undefined
  );
  return { places, moved };
}

/** @throws {CniError} 7 if an address outside the ranges has no record of the claim */
async function requireRecord(
  { api, settings: { networkName }, call: { log } }: Session,
  key: ClaimKey,
  address: Cidr,
): Promise<void> {
  const record = await findClaimRecord(api, networkName, key, address);
  if (record === undefined) throw outside(address.ip);
  log.warn("The address of an IPAMClaim is no longer in any range", {
    claim: `${key.namespace}/${key.name}`,
    address: String(address),
  });
}

/**
 * Writes the addresses and the pod into the claim's status. During a live migration,
 * the status continues to name the source pod. All pods of a claim share its record in
 * the pool: only the test of `ownerPod` decides which pod has the addresses.
 *
 * @returns False if a different writer changed the status at the same time
 */
async function writeStatus(
  api: ClaimApi,
  { key, claim: { status = {} }, pod, isAnnouncementSuppressed }: UsableClaim,
  ips: readonly IpConfig[],
  containerId: string,
): Promise<boolean> {
  const { ips: known = [], ownerPod } = status;
  const all = ips.map(({ address }) => String(address));
  const isNews = all.some((one) => !known.includes(one));
  const isOwn = ownerPod?.name === pod && sandboxOf(status) === containerId;
  if (!isNews && (isAnnouncementSuppressed || isOwn)) return true;
  const after = await api.patchStatus(key.namespace, key.name, [
    { op: "test", path: "/metadata/uid", value: key.uid },
    ...statusExists(status),
    { op: "test", path: "/status/ips", value: status.ips ?? null },
    { op: "test", path: "/status/ownerPod", value: ownerPod ?? null },
    ...isNews ? [{ op: "add", path: "/status/ips", value: all } as const] : [],
    {
      op: "add",
      path: "/status/conditions",
      value: conditionsOf(status, isNews, all, containerId),
    },
    { op: "add", path: "/status/ownerPod", value: { name: pod } },
  ]);
  return after !== undefined;
}

/** Returns the conditions of a claim for a sandbox that has its addresses. */
function conditionsOf(
  { conditions = [] }: NonNullable<IpamClaim["status"]>,
  isNews: boolean,
  ips: readonly string[],
  containerId: string,
): ClaimCondition[] {
  const lastTransitionTime = formatTime(new Date());
  const allocated = conditions.find(({ type, status }) =>
    type === IPS_ALLOCATED && status === "True"
  );
  return [
    {
      type: SANDBOX,
      status: "True",
      reason: "Attached",
      message: containerId,
      lastTransitionTime,
    },
    ...conditions.filter(({ type }) =>
      ![SANDBOX, IPS_ALLOCATED, UNUSED].includes(type)
    ),
    allocated !== undefined && !isNews ? allocated : {
      type: IPS_ALLOCATED,
      status: "True",
      reason: "SuccessfulAllocation",
      message: `allocated ${ips.join(", ")}`,
      lastTransitionTime,
    },
  ];
}

function statusExists(status: object): PatchOperation[] {
  return Object.keys(status).length > 0 ? [] : [
    { op: "test", path: "/status", value: null },
    { op: "add", path: "/status", value: {} },
  ];
}

function setFailure(
  { conditions = [] }: NonNullable<IpamClaim["status"]>,
  failure: Pick<ClaimCondition, "reason" | "message">,
): PatchOperation[] {
  const others = conditions.filter(({ type }) =>
    type !== IPS_ALLOCATED && type !== UNUSED
  );
  const lastTransitionTime = formatTime(new Date());
  const condition = {
    type: IPS_ALLOCATED,
    status: "False",
    lastTransitionTime,
    ...failure,
  };
  return [{
    op: "add",
    path: "/status/conditions",
    value: [...others, condition],
  }];
}

/** Returns the reason of a condition. Source: the reasons of OVN-Kubernetes. */
function reasonOf(error: unknown): string | undefined {
  if (error instanceof ConflictError) return "IPAddressConflict";
  return error instanceof RangeFullError ? "SubnetExhausted" : undefined;
}

/** Reports the failure of ADD in the claim's status. */
async function reportFailure(
  api: ClaimApi,
  { key, claim: { status = {} } }: UsableClaim,
  reason: string,
  error: unknown,
): Promise<void> {
  const { message } = error as CniError;
  const before = status.conditions?.find(({ type }) => type === IPS_ALLOCATED);
  if (before?.reason === reason && before.message === message) return;
  try {
    await api.patchStatus(key.namespace, key.name, [
      { op: "test", path: "/metadata/uid", value: key.uid },
      ...statusExists(status),
      ...setFailure(status, { reason, message }),
    ]);
  } catch {
    // The pod's events also contain the error.
  }
}

function usedClaimOf(
  { key, pod, claim, isAnnouncementSuppressed }: UsableClaim,
): UsedClaim {
  const isTimed = claim.metadata?.annotations?.[PERSISTENCE.time] !== undefined;
  // During a live migration, the claim continues to name the source pod.
  const namesSandbox = !isAnnouncementSuppressed;
  return { ...key, pod, ...isTimed && { isTimed }, namesSandbox };
}
