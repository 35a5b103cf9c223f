/**
 * ADD: leases one address from each list of ranges, or none at all.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import { type AttachmentId, CONFLICTS } from "../../cni/config/types.ts";
import type { Call } from "../../cni/plugin.ts";
import {
  emptyDns,
  type IpConfig,
  type Result,
} from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import {
  type AddressRequest,
  allocate,
  allocateRequested,
  type Candidate,
  NotFreeError,
} from "./allocator.ts";
import {
  dataDirOf,
  hasPersistentAddresses,
  persistentMsOf,
  podNameOf,
  rangeSetsOf,
  requestedIpsOf,
} from "./config.ts";
import {
  type DatedLease,
  describeOwner,
  type Lease,
  parseSetAside,
  type PodName,
} from "./lease.ts";
import { findRange, listWithheld, type RangeSet } from "./range.ts";
import { readResolvConf } from "./resolv_conf.ts";
import type { HostLocalConfig } from "./schema.ts";
import type { Replacement } from "./set_aside.ts";
import { LeaseStore } from "./store.ts";

/**
 * Leases an attachment's addresses: all of them, or none.
 *
 * Nothing waits while the store is open, so the lock is held only briefly, except
 * while lost leases are restored.
 *
 * @throws {CniError} 7 if the ranges are malformed or lack a requested address,
 *   4 if addresses are persistent and the pod is unknown, 11 if no address is
 *   free, 999 if the attachment has leases already, 5 if a file cannot be read
 *   or written
 */
export async function leaseAddresses(
  call: Call<HostLocalConfig>,
): Promise<Result> {
  const sets = rangeSetsOf(call.config, call.cniVersion);
  const requests = distribute(requestedIpsOf(call.config, call.args), sets);
  const persistentMs = persistentMsOf(call.config);
  const name = hasPersistentAddresses(call.config)
    ? podNameOf(call)
    : undefined;
  const replacement = CONFLICTS in call.config
    ? (await import("./set_aside.ts")).readReplacement(call.config)
    : undefined;
  const { resolvConf, routes = [] } = call.config.ipam ?? {};
  const dns = resolvConf ? readResolvConf(resolvConf) : emptyDns();
  const lease = async (
    { restarted = [], restore }: Preparation,
  ): Promise<Candidate[]> => {
    using store = await LeaseStore.open(
      dataDirOf(call.config),
      call.network,
      call,
      persistentMs,
    );
    if (restore !== undefined) await restore(store);
    else if (store.isUnused) throw new UnusedStoreError();
    const kept = { name, replacement, restarted };
    return leaseEach(requests, call.args, store, call.log, kept);
  };
  let failure: unknown;
  let isSecond = false;
  let preparation: Preparation = {};
  for (const attempt of listAttempts(call, sets)) {
    if (!attempt.appliesAfter(failure)) continue;
    try {
      const prepared = await attempt.prepare(failure, preparation);
      if (prepared === undefined) break;
      preparation = prepared;
      const ips = (await lease(preparation)).map(ipConfigOf);
      return { interfaces: [], ips, routes, dns };
    } catch (error) {
      failure = error;
      isSecond ||= error instanceof SecondLeaseError;
    }
  }
  // However the last attempt failed: this ADD has left nothing.
  if (isSecond) call.context.onAttached?.();
  throw failure;
}

/** What is prepared before the store is opened. */
interface Preparation {
  /** The owner's leases from before it was started again. */
  readonly restarted?: readonly DatedLease[];
  /** Restores lost leases; without it, an unused store is left alone. */
  readonly restore?: (store: LeaseStore) => Promise<void>;
}

/** An attempt to lease the addresses. */
interface Attempt {
  /** Reports whether to make it after the error of the last attempt, if any. */
  appliesAfter(error: unknown): boolean;
  /**
   * Removes the cause of the error.
   *
   * @param last What the last attempt had
   * @returns Undefined if that is impossible
   */
  prepare(
    error: unknown,
    last: Preparation,
  ): Promise<Preparation | undefined> | Preparation;
}

/** Lists the attempts of an ADD in their order; each is made at most once. */
function listAttempts(
  call: Call<HostLocalConfig>,
  sets: readonly RangeSet[],
): Attempt[] {
  const plain: Attempt = {
    appliesAfter: (error) => error === undefined,
    prepare: () => ({}),
  };
  /** Living containers keep their addresses if somebody deleted the directory. */
  const afterRestoringLostLeases: Attempt = {
    appliesAfter: (error) => error instanceof UnusedStoreError,
    async prepare(_error, last): Promise<Preparation> {
      const { prepareRestoration } = await import("./recovery/lost_leases.ts");
      return { ...last, restore: await prepareRestoration(call, sets) };
    },
  };
  /** No address is free, or the same container was started again. */
  const afterDeadLeases: Attempt = {
    appliesAfter: (error) =>
      error instanceof NotFreeError || error instanceof SecondLeaseError,
    async prepare(error): Promise<Preparation | undefined> {
      if (error instanceof NotFreeError) {
        const { endDeadLeases } = await import("./recovery/dead_leases.ts");
        return await endDeadLeases(call) ? {} : undefined;
      }
      const { findOwnDeadLeases } = await import("./recovery/restarted.ts");
      const restarted = await findOwnDeadLeases(call);
      return restarted.length > 0 ? { restarted } : undefined;
    },
  };
  return [
    plain,
    afterRestoringLostLeases,
    afterDeadLeases,
    // An attempt that fails can leave the store unused.
    afterRestoringLostLeases,
  ];
}

function ipConfigOf({ ip, range: { subnet, gateway } }: Candidate): IpConfig {
  return { address: Cidr.of(ip, subnet.prefixLength), gateway };
}

/**
 * Gives each set the first remaining requested address that it contains.
 *
 * @throws {CniError} 7 if a requested address is left over
 */
export function distribute(
  requested: readonly Ip[],
  sets: readonly RangeSet[],
): AddressRequest[] {
  const left = [...requested];
  const requests = sets.map((set): AddressRequest => {
    const position = left.findIndex((ip) => findRange(set, ip) !== undefined);
    const [ip] = position < 0 ? [] : left.splice(position, 1);
    return { set, requested: ip };
  });
  if (left.length === 0) return requests;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `failed to allocate all requested IPs: ${left.join(" ")}`,
    { details: "no remaining range set contains them" },
  );
}

/** A lease that was made, and the one that it replaces. */
interface NewLease extends Candidate {
  readonly before?: Lease & Partial<DatedLease>;
  /** Whether the owner had it before. */
  readonly isHeld?: boolean;
}

/** The leases that an owner may keep. */
export interface KeptLeases {
  /** The name whose addresses are persistent. */
  readonly name?: PodName | undefined;
  /** Replaces addresses that the owner has. */
  readonly replacement?: Replacement | undefined;
  /**
   * The owner's leases from before it was started again. Those that have been
   * written since are of another ADD.
   */
  readonly restarted?: readonly DatedLease[];
}

/** The owner of new leases. */
export interface LeaseOwner extends AttachmentId {
  /** Path of the sandbox's namespace. */
  readonly netns?: string;
}

/**
 * Leases one address from each set, or none at all.
 *
 * @param log Receives failures to undo leases, and warnings
 * @param kept What the owner may keep
 * @throws {CniError} 11 if an address is not free, 999 if the owner has a lease
 *   already, 7 if an address must not be handed out, 5 if a lease cannot be
 *   written
 */
export function leaseEach(
  requests: readonly AddressRequest[],
  owner: LeaseOwner,
  store: LeaseStore,
  log: Log,
  { name, replacement, restarted = [] }: KeptLeases = {},
): Candidate[] {
  const before = store.leasesOf(owner);
  const own = restarted.length === 0
    ? []
    : store.datedLeasesOf(owner).filter(({ ip, writtenMs }) =>
      restarted.some((one) => one.ip.equals(ip) && one.writtenMs === writtenMs)
    );
  if (replacement === undefined) {
    const others = before.filter((lease) => !isIn(own, lease));
    refuseSecondLease(requests, owner, others);
  }
  const held = replacement?.setAside(requests, before, store) ?? [];
  const named = name === undefined ? [] : claimLeasesOfName(name, owner, store);
  const kept = [...named, ...own];
  const leased: NewLease[] = [];
  for (const [position, request] of requests.entries()) {
    try {
      const lease = findHeld(request, held) ??
        reuseLease(request, kept, owner, store) ??
        leaseNew(request, position, owner, store, log, replacement);
      leased.push(lease);
      const isNew = !lease.isHeld &&
        !kept.some(({ ip }) => ip.equals(lease.ip));
      if (isNew) store.setLastReserved(position, lease.ip);
    } catch (error) {
      undoLeases(leased, store, log);
      throw atRangeSet(position, error);
    }
  }
  try {
    if (name !== undefined) updateName(name, named, leased, owner, store);
    store.release(own.filter((one) => !isIn(leased, one)));
  } catch (error) {
    undoLeases(leased, store, log);
    throw error;
  }
  return leased;
}

function isIn(
  list: readonly Pick<Lease, "ip">[],
  { ip }: Pick<Lease, "ip">,
): boolean {
  return list.some((one) => one.ip.equals(ip));
}

/** Finds the address of a set that the owner keeps, while another is replaced. */
function findHeld(
  { set }: AddressRequest,
  held: readonly Lease[],
): NewLease | undefined {
  for (const { ip } of held) {
    const range = findRange(set, ip);
    if (range !== undefined) return { ip, range, isHeld: true };
  }
  return undefined;
}

/** Takes the address that the name, or the owner, had in a set. */
function reuseLease(
  { set, requested }: AddressRequest,
  kept: readonly Lease[],
  owner: AttachmentId,
  store: LeaseStore,
): NewLease | undefined {
  for (const lease of kept) {
    const { ip } = lease;
    const range = findRange(set, ip);
    const isFit = range !== undefined && (requested?.equals(ip) ?? true) &&
      !listWithheld(range).some((block) => block.contains(ip));
    if (!isFit) continue;
    store.assignLease(lease, owner);
    return { ip, range, before: lease };
  }
  return undefined;
}

/**
 * Finds the leases of a name, and records that the owner will have them. Until it
 * does, they are kept for the name: a crash at any moment leaves what the next ADD
 * finds.
 */
function claimLeasesOfName(
  name: PodName,
  owner: LeaseOwner,
  store: LeaseStore,
): Lease[] {
  const kept = store.leasesOfName(name, owner)
    .map((lease) => store.makePersistent(lease, name));
  if (kept.length > 0) recordName(name, owner, kept, store);
  return kept;
}

function recordName(
  name: PodName,
  owner: LeaseOwner,
  leases: readonly Pick<Lease, "ip">[],
  store: LeaseStore,
): void {
  const ips = leases.map(({ ip }) => ip);
  store.recordName(name, { ...owner, netns: owner.netns ?? "" }, ips);
}

/**
 * Records the addresses of the name, and releases addresses that it no longer
 * has.
 *
 * @param kept What {@linkcode claimLeasesOfName} has recorded
 */
function updateName(
  name: PodName,
  kept: readonly Lease[],
  leased: readonly NewLease[],
  owner: LeaseOwner,
  store: LeaseStore,
): void {
  const isRecorded = kept.length === leased.length &&
    leased.every((one) => isIn(kept, one));
  if (!isRecorded) recordName(name, owner, leased, store);
  store.release(kept.filter((one) => !isIn(leased, one)));
}

function leaseNew(
  { set, requested }: AddressRequest,
  position: number,
  owner: AttachmentId,
  store: LeaseStore,
  log: Log,
  replacement: Replacement | undefined,
): NewLease {
  const isUsed = (ip: Ip): boolean => replacement?.isUsed(ip) === true;
  const reserve = (ip: Ip): boolean =>
    !isUsed(ip) && store.reserve(ip, owner, requested !== undefined);
  try {
    return requested === undefined
      ? allocate(set, store.lastReserved(position), reserve)
      : allocateRequested(set, requested, reserve);
  } catch (error) {
    if (!(error instanceof NotFreeError)) throw error;
    const kept = requested === undefined
      ? takeOldestKept(set, owner, store, log, isUsed)
      : undefined;
    if (kept !== undefined) return kept;
    throw withDetails(
      error,
      requested === undefined
        ? `${error.details}; the leases are in "${store.path}"`
        : store.describeLease(requested),
    );
  }
}

/**
 * A full set: takes the persistent address that has been unused for the longest
 * time, or an address that is set aside.
 */
function takeOldestKept(
  set: RangeSet,
  owner: AttachmentId,
  store: LeaseStore,
  log: Log,
  isUsed: (ip: Ip) => boolean,
): NewLease | undefined {
  const before = store.findOldestKept((ip) => {
    const range = findRange(set, ip);
    return range !== undefined && !isUsed(ip) &&
      !listWithheld(range).some((block) => block.contains(ip));
  });
  const range = before && findRange(set, before.ip);
  if (before === undefined || range === undefined) return undefined;
  store.assignLease(before, owner);
  const message = parseSetAside(before.content) === undefined
    ? "The range is full: reusing a persistent address"
    : "The range is full: reusing an address that is set aside";
  log.warn(message, {
    address: String(before.ip),
    of: describeOwner(before.content),
  });
  return { ip: before.ip, range, before };
}

/** Ends only these leases: the owner may have others, from another ADD. */
function undoLeases(
  leased: readonly NewLease[],
  store: LeaseStore,
  log: Log,
): void {
  for (const { ip, before, isHeld } of leased) {
    if (isHeld) continue;
    try {
      if (before === undefined) store.removeLease(ip);
      else store.restoreLease(before);
    } catch (error) {
      // The caller reports the earlier error.
      log.error(`Cannot release ${ip}`, { error: describeError(error) });
    }
  }
}

/**
 * Refuses an attachment that has a lease already: it is still attached, or its
 * DEL is still to come or was lost.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/allocator/allocator.go `Get`.
 */
function refuseSecondLease(
  requests: readonly AddressRequest[],
  owner: AttachmentId,
  leases: readonly Lease[],
): void {
  for (const [position, { set }] of requests.entries()) {
    const lease = leases.find(({ ip }) => findRange(set, ip) !== undefined);
    if (lease === undefined) continue;
    throw new SecondLeaseError(
      ErrorCode.Internal,
      `failed to allocate for range ${position}: ` +
        `${lease.ip} has been allocated to ${owner.containerId}, ` +
        "duplicate allocation is not allowed",
      { details: lease.path },
    );
  }
}

/** The error of an attachment that has a lease already. */
class SecondLeaseError extends CniError {}

/** The error of a directory that has handed out no address since it was created. */
class UnusedStoreError extends Error {}

function atRangeSet(position: number, error: unknown): unknown {
  if (!(error instanceof CniError)) return error;
  const message = `failed to allocate for range ${position}: ${error.message}`;
  const Kind = error instanceof NotFreeError ? NotFreeError : CniError;
  return new Kind(error.code, message, {
    details: error.ownDetails ?? "",
    cause: error.cause,
  });
}

function withDetails(
  { code, message }: NotFreeError,
  details: string,
): NotFreeError {
  return new NotFreeError(code, message, { details });
}
