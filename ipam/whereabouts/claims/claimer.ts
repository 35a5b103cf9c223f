/**
 * Takes one address from each pool. The API server decides which writer gets an
 * address: each write tests the key that it changes.
 *
 * A claim goes through the states of {@linkcode CLAIM_STEPS}.
 *
 * @module
 */

import { pause } from "../../../base/deadline.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import type { Log } from "../../../base/log/log.ts";
import type { Ip } from "../../../net/ip.ts";
import { chooseAddress } from "../allocator.ts";
import { pauseMs, type WhereaboutsApi } from "../api.ts";
import { conflict, otherInterface, outside } from "./errors.ts";
import type { ClaimState, NextState } from "./steps.ts";
import { findClaimKey, recordCountKey } from "./ipam_claim.ts";
import type { ObjectMeta } from "../../../kube/types.ts";
import type { PatchOperation } from "../../../kube/write.ts";
import {
  allocationPath,
  type IpPool,
  offsetKey,
  reservationName,
} from "../objects.ts";
import { listRecords, type Pool, type PoolRecord } from "../pools.ts";
import { contains, rangeIsFull } from "../range.ts";
import type { PoolAllocation } from "../allocation_files.ts";
import type { RecordOwner } from "../record_owner.ts";
import { releaseAllocation, undoClaim } from "../release.ts";
import { isSetAsideOver, parseSetAside } from "../set_aside_record.ts";

/**
 * How often a patch of an unchanged pool may be refused. More refusals have a cause
 * other than concurrent writers.
 */
const MAX_REFUSALS = 5;

/** The input of a {@linkcode Claimer}. */
export interface ClaimerOptions {
  readonly api: WhereaboutsApi;
  /** The owner of the records. */
  readonly owner: RecordOwner;
  readonly networkName: string;
  /** Whether addresses are unique in all ranges of the network name. */
  readonly isOverlapping: boolean;
  /** Reports whether another machine has an address. */
  readonly isUsed?: (ip: Ip) => boolean;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Returns a number from 0, inclusive, to 1, exclusive. */
  readonly random?: () => number;
  /** Receives the steps of each claim. */
  readonly onStep?: (from: ClaimState, to: ClaimState | "done") => void;
}

/** An address, and the claim to it. */
export interface ClaimedAddress {
  readonly ip: Ip;
  readonly claim: PoolAllocation;
}

/** A claim's values in each state. */
interface StateData {
  readonly reading: unknown;
  /** The owner's record. */
  readonly adopting: { readonly record: PoolRecord };
  readonly taking: Reading;
  readonly restoring: Reading & { readonly ip: Ip };
  readonly recorded: ClaimedAddress & { readonly isAdopted: boolean };
  readonly reserving: Reserving;
  readonly replacing: Reserving & { readonly uid: string };
  readonly pausing: Reserving;
  readonly leaving: Reserving;
  readonly yielding: { readonly claim: PoolAllocation };
  readonly waiting: unknown;
  readonly done: ClaimedAddress;
}

/** The content of the pool. */
interface Reading {
  readonly current: IpPool;
  readonly records: readonly PoolRecord[];
}

/** A recorded address during the creation of its reservation. */
interface Reserving extends ClaimedAddress {
  /** Name of the reservation. */
  readonly name: string;
  /** Whether the record was there before. Then the reservation usually was too. */
  readonly isAdopted: boolean;
  /** Whether an earlier sandbox's reservation is replaced. */
  readonly mayReplace: boolean;
  /** How often the reservation was neither made nor found. */
  readonly misses: number;
}

/** A claim in any of these states. */
type At<N extends keyof StateData> = {
  [S in N]: { readonly at: S } & StateData[S];
}[N];

/** The step of each state; it returns the next state. */
type Steps = {
  readonly [S in ClaimState]: (
    state: At<S>,
    attempt: Attempt,
  ) => Promise<At<NextState<S>>>;
};

/** The claim to an address of one pool. */
interface Attempt {
  readonly pool: Pool;
  /** The required address, if any. */
  readonly wanted: Ip | undefined;
  /** How often another writer came first. */
  conflicts: number;
  /** How often the pool was read since it changed, or this call changed something. */
  refusals: number;
  /** The version of the pool that was read last. */
  version: string | undefined;
}

/** Takes addresses for an attachment, and can give them back. */
export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #random: () => number;
  readonly #claims: PoolAllocation[] = [];
  /**
   * The records that this call has requested, by pool and key, because the answer to a
   * successful request can be lost. Undefined for a record that the call does not have.
   */
  readonly #requested = new Map<string, PoolAllocation | undefined>();
  /** Names of reservations that belong to other attachments. */
  readonly #foreign = new Set<string>();
  #hasListed = false;
  /** The claim in progress. */
  #state: At<ClaimState | "done"> = { at: "reading" };

  readonly #steps: Steps = {
    reading: (_, attempt) => this.#read(attempt),
    adopting: (state, attempt) => this.#adopt(state, attempt),
    taking: (state, attempt) => this.#take(state, attempt),
    restoring: (state, attempt) => this.#restore(state, attempt),
    recorded: (state) => this.#continue(state),
    reserving: (state, attempt) => this.#reserve(state, attempt),
    replacing: (state) => this.#replace(state),
    pausing: (state, attempt) => this.#pause(state, attempt),
    leaving: (state, attempt) => this.#leave(state, attempt),
    yielding: (state) => this.#yield(state),
    waiting: (_, attempt) => this.#wait(attempt),
  };

  /** Starts without claims. */
  constructor(options: ClaimerOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
  }

  /** All claims. */
  get claims(): readonly PoolAllocation[] {
    return this.#claims;
  }

  /**
   * Takes the lowest free address, or finds the address that the owner has.
   *
   * @param wanted The required address, if any
   * @throws {CniError} 11 if no address is free, a different owner has the required
   *   address, or the time limit is exceeded; 7 if the required address is not in the
   *   range
   * @throws {KubeError}
   */
  async claim(pool: Pool, wanted?: Ip): Promise<ClaimedAddress> {
    const attempt = {
      pool,
      wanted,
      conflicts: 0,
      refusals: 0,
      version: undefined,
    };
    let state: At<ClaimState | "done"> = { at: "reading" };
    while (state.at !== "done") {
      this.#state = state;
      state = await this.#step(state.at, state, attempt);
    }
    this.#state = state;
    const { ip, claim } = state;
    this.#claims.push(claim);
    // The next range might also contain the address.
    if (claim.reservation) this.#foreign.add(claim.reservation.name);
    return { ip, claim };
  }

  async #step<S extends ClaimState>(
    at: S,
    state: At<ClaimState>,
    attempt: Attempt,
  ): Promise<At<ClaimState | "done">> {
    const next = await this.#steps[at](state as At<S>, attempt);
    this.#options.onStep?.(at, next.at);
    return next;
  }

  /**
   * Releases what this call took. Failures are logged.
   *
   * @param api With a separate time limit: the call's limit might be exceeded
   */
  async undo(api: WhereaboutsApi): Promise<void> {
    const { log } = this.#options;
    for (const claim of [...this.#requested.values()].reverse()) {
      if (claim === undefined) continue;
      await undoClaim(await this.#complete(claim, api), api, log);
    }
  }

  /** Adds the reservation whose creation has failed, if it exists. */
  async #complete(
    claim: PoolAllocation,
    api: WhereaboutsApi,
  ): Promise<PoolAllocation> {
    const state = this.#state;
    if (!("misses" in state) || state.claim !== claim) return claim;
    if (state.at === "leaving") return claim;
    const { name } = state;
    try {
      const found = await api.findReservation(name);
      const isOwn = found && this.#options.owner.owns(found);
      const uid = isOwn && found.metadata?.uid;
      return uid ? { ...claim, reservation: { name, uid } } : claim;
    } catch (error) {
      const { log } = this.#options;
      log.error("Cannot find a reservation", { name, error: `${error}` });
      return claim;
    }
  }

  async #read(attempt: Attempt): Promise<At<NextState<"reading">>> {
    const { api, log } = this.#options;
    const { name, range } = attempt.pool;
    const current = await api.findPool(name) ??
      await api.createPool(name, String(range.cidr)) ??
      await api.findPool(name);
    if (current === undefined) return { at: "waiting" };
    checkRefusals(attempt, current);
    const records = listRecords(current, range.cidr, log);
    const record = this.#findOwn(attempt, records);
    const { wanted: ip } = attempt;
    if (record !== undefined && !this.#isLeft(record, ip)) {
      return { at: "adopting", record };
    }
    return ip === undefined
      ? { at: "taking", current, records }
      : { at: "restoring", current, records, ip };
  }

  /**
   * Finds the owner's record, except for other ranges of the pool. The record of the
   * required address comes first, and then a record of this sandbox.
   */
  #findOwn(
    { pool: { name }, wanted }: Attempt,
    records: readonly PoolRecord[],
  ): PoolRecord | undefined {
    const known = this.#claims.filter(({ pool }) => pool === name)
      .map(({ key }) => key);
    const others = records.filter(({ key }) => !known.includes(key));
    const { owner } = this.#options;
    const own = owner.list(others);
    return own.find(({ ip }) => wanted?.equals(ip)) ??
      own.find(({ value }) => value.id === owner.record.id) ?? own[0];
  }

  /**
   * Reports whether a record is left to an earlier sandbox of the pod, which has a
   * different address than the pod requests now. That sandbox might still run: its DEL
   * or `cluster-gc` releases the address.
   */
  #isLeft({ ip, value }: PoolRecord, wanted: Ip | undefined): boolean {
    const { isLasting, record } = this.#options.owner;
    if (isLasting || value.id === record.id) return false;
    return wanted !== undefined && !wanted.equals(ip);
  }

  async #adopt(
    { record: { key, value, ip } }: At<"adopting">,
    attempt: Attempt,
  ): Promise<At<NextState<"adopting">>> {
    const { api, owner } = this.#options;
    const { pool: { name }, wanted } = attempt;
    if (wanted !== undefined && !wanted.equals(ip)) {
      throw conflict(wanted, `IPPool "${name}" has ${ip} for it`);
    }
    const isRenamed = value.ifname !== owner.record.ifname;
    if (isRenamed && !owner.mayRename) throw otherInterface(value.ifname);
    const isCurrent = value.id === owner.record.id && !isRenamed;
    const path = allocationPath(key);
    const isDone = isCurrent || await api.patchPool(name, [
      { op: "test", path, value },
      { op: "replace", path, value: owner.record },
    ]);
    if (!isDone) return { at: "waiting" };
    attempt.refusals = 0;
    const claim = { pool: name, key, value: owner.record };
    if (this.#requested.has(nameOfRecord(claim))) {
      this.#requested.set(nameOfRecord(claim), claim);
    }
    return { at: "recorded", ip, claim, isAdopted: true };
  }

  async #take(
    { current, records }: At<"taking">,
    attempt: Attempt,
  ): Promise<At<NextState<"taking">>> {
    const { pool: { range } } = attempt;
    const ip = this.#choose(attempt, records);
    const added = await this.#add(ip, current, attempt);
    if (added === undefined) return { at: "waiting" };
    const { claim, patched } = added;
    // A different writer might have added a record for the same pod in between. The
    // patch of a lasting record tests that.
    if (!this.#options.owner.isLasting && !isNext(current, patched)) {
      const after = await this.#options.api.findPool(attempt.pool.name);
      const others = after === undefined
        ? []
        : listRecords(after, range.cidr, this.#options.log)
          .filter(({ key }) => key !== claim.key);
      if (this.#findOwn(attempt, others) !== undefined) {
        return { at: "yielding", claim };
      }
    }
    attempt.refusals = 0;
    return { at: "recorded", ip, claim, isAdopted: false };
  }

  async #restore(
    { current, records, ip }: At<"restoring">,
    attempt: Attempt,
  ): Promise<At<NextState<"restoring">>> {
    const { pool: { name, range } } = attempt;
    const holder = records.find((record) =>
      record.ip.equals(ip) && parseSetAside(record.value) === undefined
    );
    if (holder !== undefined) {
      const { podref, id } = holder.value;
      throw conflict(ip, `IPPool "${name}" has it for "${podref || id}"`);
    }
    if (this.#isForeign(ip)) throw conflict(ip, "another range has it");
    if (!contains(range, ip)) throw outside(ip);
    const added = await this.#add(ip, current, attempt);
    if (added === undefined) return { at: "waiting" };
    return { at: "recorded", ip, claim: added.claim, isAdopted: false };
  }

  /**
   * Adds a record for an address.
   *
   * @returns The pool's metadata afterwards; undefined if another writer came first
   */
  async #add(
    ip: Ip,
    current: IpPool,
    attempt: Attempt,
  ): Promise<
    | { readonly claim: PoolAllocation; readonly patched: ObjectMeta }
    | undefined
  > {
    const { api, owner } = this.#options;
    const { name, range } = attempt.pool;
    const key = offsetKey(range.cidr, ip);
    const path = allocationPath(key);
    const claim = { pool: name, key, value: owner.record };
    // Several calls can create a lasting record, which they all keep.
    const first = owner.isLasting ? countRecord(current, owner.record.id) : [];
    // Before the request, because its answer can be lost.
    if (!owner.isLasting) this.#requested.set(nameOfRecord(claim), claim);
    const patched = await api.patchPool(name, [
      ...first,
      ...current.spec.allocations ? [] : [
        { op: "test", path: "/spec/allocations", value: null } as const,
        { op: "add", path: "/spec/allocations", value: {} } as const,
      ],
      // The record of an address that is set aside.
      { op: "test", path, value: current.spec.allocations?.[key] ?? null },
      { op: "add", path, value: owner.record },
    ]);
    if (patched !== undefined) return { claim, patched };
    this.#forget(claim);
    return undefined;
  }

  /** @throws {CniError} 11 if no address is free */
  #choose(
    { pool: { range }, conflicts }: Attempt,
    records: readonly PoolRecord[],
  ): Ip {
    const { isUsed = () => false } = this.#options;
    const { network } = range.cidr;
    const choose = (records: readonly PoolRecord[]): Ip | undefined => {
      const taken = new Set(records.map(({ offset }) => offset));
      return chooseAddress({
        range,
        attempt: conflicts,
        random: this.#random,
        isTaken: (offset) =>
          taken.has(offset) || isUsed(network.add(offset)) ||
          this.#isForeign(network.add(offset)),
      });
    };
    // An address that is set aside comes last.
    const ip = choose(records.filter(isKept)) ??
      choose(records.filter(({ value }) => !parseSetAside(value)));
    if (ip === undefined) throw rangeIsFull(range, countLasting(records));
    return ip;
  }

  /** Reports whether an address is known to be reserved by another. */
  #isForeign(ip: Ip): boolean {
    const { networkName } = this.#options;
    const foreign = this.#foreign;
    return foreign.size > 0 && foreign.has(reservationName(networkName, ip));
  }

  #continue(
    { ip, claim, isAdopted }: At<"recorded">,
  ): Promise<At<NextState<"recorded">>> {
    const { isOverlapping, networkName } = this.#options;
    if (!isOverlapping) return Promise.resolve({ at: "done", ip, claim });
    const name = reservationName(networkName, ip);
    const mayReplace = this.#requested.get(nameOfRecord(claim)) === claim;
    return Promise.resolve(
      { at: "reserving", ip, claim, name, isAdopted, mayReplace, misses: 0 },
    );
  }

  async #reserve(
    state: At<"reserving">,
    { wanted }: Attempt,
  ): Promise<At<NextState<"reserving">>> {
    const { api, owner } = this.#options;
    const { ip, claim, name, isAdopted, mayReplace } = state;
    const { podref, ifname } = owner.record;
    const spec = { podref, ifname };
    const existing = isAdopted ? await api.findReservation(name) : undefined;
    const created = existing === undefined
      ? await api.createReservation(name, spec, owner.metadata)
      : undefined;
    const reservation = existing ?? created ??
      await api.findReservation(name);
    if (reservation === undefined) return { ...state, at: "pausing" };
    if (!owner.owns(reservation)) {
      if (wanted === undefined) return { ...state, at: "leaving" };
      // A different pod of the claim might use the address.
      if (!isAdopted || !owner.isLasting) await this.#giveBack(claim);
      throw conflict(ip, "another range has it");
    }
    const uid = reservation.metadata?.uid ?? "";
    if (created === undefined && mayReplace) {
      return { ...state, at: "replacing", uid };
    }
    const reserved = { ...claim, reservation: { name, uid } };
    if (this.#requested.get(nameOfRecord(claim)) === claim) {
      this.#requested.set(nameOfRecord(claim), reserved);
    }
    return { at: "done", ip, claim: reserved };
  }

  async #replace(
    state: At<"replacing">,
  ): Promise<At<NextState<"replacing">>> {
    await this.#options.api.deleteReservation(state.name, state.uid);
    return { ...state, at: "reserving", mayReplace: false };
  }

  async #pause(
    state: At<"pausing">,
    { pool }: Attempt,
  ): Promise<At<NextState<"pausing">>> {
    await this.#sleep(pool, state.misses);
    return { ...state, at: "reserving", misses: state.misses + 1 };
  }

  async #leave(
    { claim, name }: At<"leaving">,
    { pool, conflicts }: Attempt,
  ): Promise<At<NextState<"leaving">>> {
    await this.#giveBack(claim);
    const sizeBefore = this.#foreign.size;
    this.#foreign.add(name);
    if (!this.#hasListed) await this.#listForeign();
    if (this.#foreign.size === sizeBefore) return { at: "waiting" };
    this.#checkTime(pool, conflicts);
    return { at: "reading" };
  }

  /** Lists all reserved addresses once, instead of reading each reservation. */
  async #listForeign(): Promise<void> {
    const { api, owner: { record: { podref } } } = this.#options;
    for await (const { metadata, spec } of api.listReservations()) {
      // Records of claims have no pod.
      const isOther = spec.podref !== podref || podref === "";
      if (isOther) this.#foreign.add(metadata?.name ?? "");
    }
    this.#hasListed = true;
  }

  async #yield(
    { claim }: At<"yielding">,
  ): Promise<At<NextState<"yielding">>> {
    await this.#giveBack(claim);
    return { at: "waiting" };
  }

  async #giveBack(claim: PoolAllocation): Promise<void> {
    await releaseAllocation(claim, this.#options.api);
    this.#forget(claim);
  }

  #forget(claim: PoolAllocation): void {
    if (this.#requested.has(nameOfRecord(claim))) {
      this.#requested.set(nameOfRecord(claim), undefined);
    }
  }

  async #wait(attempt: Attempt): Promise<At<NextState<"waiting">>> {
    await this.#sleep(attempt.pool, attempt.conflicts++);
    return { at: "reading" };
  }

  async #sleep(pool: Pool, conflicts: number): Promise<void> {
    await pause(pauseMs(conflicts, this.#random), this.#options.signal);
    this.#checkTime(pool, conflicts);
  }

  #checkTime({ name }: Pool, conflicts: number): void {
    if (!this.#options.signal.aborted) return;
    throw new CniError(
      ErrorCode.TryAgainLater,
      `time limit exceeded while allocating from IPPool "${name}"`,
      { details: `after ${conflicts + 1} conflicts with other writers` },
    );
  }
}

/**
 * Reports whether a pool was not changed between a read and a patch.
 *
 * Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/strategy.go
 * `PrepareForUpdate`: each change of the content adds one to the generation.
 */
function isNext({ metadata }: IpPool, patched: ObjectMeta): boolean {
  const { generation } = metadata ?? {};
  return generation !== undefined && patched.generation === generation + 1;
}

/** Reports whether a record is of a pod, or of an address that is set aside. */
function isKept({ value }: PoolRecord): boolean {
  const aside = parseSetAside(value);
  return aside === undefined || !isSetAsideOver(aside);
}

function nameOfRecord({ pool, key }: PoolAllocation): string {
  return `${pool}/${key}`;
}

/**
 * Counts a claim's record, so that the patch fails if a record of the same claim was
 * created since the pool was read. Other changes of the pool do not matter, except for
 * records with the same count.
 */
function countRecord({ metadata }: IpPool, id: string): PatchOperation[] {
  const annotations = metadata?.annotations;
  const key = recordCountKey(id);
  const root = "/metadata/annotations";
  const path = `${root}/${key.replaceAll("/", "~1")}`;
  const count = annotations?.[key];
  return [
    ...annotations ? [] : [
      { op: "test", path: root, value: null } as const,
      { op: "add", path: root, value: {} } as const,
    ],
    { op: "test", path, value: count ?? null },
    { op: "add", path, value: `${(Number(count) || 0) + 1}` },
  ];
}

/** Counts the records of claims, which outlive pods. */
function countLasting(records: readonly PoolRecord[]): number {
  return records.filter(({ value }) => findClaimKey(value)).length;
}

/** @throws {CniError} 7 if the server refuses a patch that it should accept */
function checkRefusals(attempt: Attempt, { metadata }: IpPool): void {
  const { pool: { name }, version } = attempt;
  attempt.version = metadata?.resourceVersion;
  if (version !== attempt.version) attempt.refusals = 0;
  if (attempt.refusals++ < MAX_REFUSALS) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `the API server refuses to change IPPool "${name}"`,
  );
}
