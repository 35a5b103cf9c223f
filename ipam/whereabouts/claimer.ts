/**
 * Takes one address from each pool. The API server decides who gets an address:
 * each write tests the one key that it changes.
 *
 * @module
 */

import { pause } from "../../cni/call/deadline.ts";
import { CniError, ErrorCode } from "../../cni/error.ts";
import type { Log } from "../../cni/log/log.ts";
import type { Ip } from "../../net/ip.ts";
import { chooseAddress } from "./allocator.ts";
import type { WhereaboutsApi } from "./api.ts";
import { offsetKey, reservationName } from "./names.ts";
import {
  type Allocation,
  allocationPath,
  type IpPool,
  type Reservation,
} from "./objects.ts";
import { pauseMs } from "./pauses.ts";
import { listRecords, type Pool, type PoolRecord } from "./pools.ts";
import { rangeIsFull } from "./range.ts";
import type { Claim } from "./receipts.ts";
import { releaseClaim, undoClaim } from "./release.ts";

/**
 * How often a patch of an unchanged pool may be refused: more often, and it is
 * not another writer.
 */
const MAX_REFUSALS = 5;

/** The input of a {@linkcode Claimer}. */
export interface ClaimerOptions {
  readonly api: WhereaboutsApi;
  /** The record to write. */
  readonly owner: Required<Allocation>;
  readonly networkName: string;
  /** Whether addresses are unique in all ranges of the network name. */
  readonly isOverlapping: boolean;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Returns a number from 0, inclusive, to 1, exclusive. */
  readonly random?: () => number;
}

/** An address, and the claim to it. */
export interface ClaimedAddress {
  readonly ip: Ip;
  readonly claim: Claim;
}

/** Takes addresses for one attachment, and can give them back. */
export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #random: () => number;
  readonly #claims: Claim[] = [];
  /** The claims that this call has made, and not found. */
  readonly #made = new Set<Claim>();
  /** Pools and keys of all tries: the answer to a successful one may be lost. */
  readonly #tried = new Set<string>();
  /** A claim that is being reserved: the answer to that may be lost, too. */
  #reserving: { readonly claim: Claim; readonly name: string } | undefined;
  /** Names of reservations that belong to other attachments. */
  readonly #foreign = new Set<string>();
  #hasListed = false;
  #lastVersion: string | undefined;
  #refusals = 0;

  /** Starts without claims. */
  constructor(options: ClaimerOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
  }

  /** All claims. */
  get claims(): readonly Claim[] {
    return this.#claims;
  }

  /**
   * Takes the lowest free address, or finds the one that the pod's interface
   * has.
   *
   * @throws {CniError} 11 if no address is free, or the time is over
   * @throws {KubeError}
   */
  async claim(pool: Pool): Promise<ClaimedAddress> {
    for (let attempt = 0;;) {
      const known = this.#foreign.size;
      const claimed = await this.#try(pool, attempt);
      if (claimed !== undefined) {
        const { claim } = claimed;
        this.#claims.push(claim);
        // The next range may contain the address too.
        if (claim.reservation) this.#foreign.add(claim.reservation.name);
        return claimed;
      }
      // A reserved address is not a conflict: the next one may be free.
      if (this.#foreign.size > known) this.#checkTime(pool, attempt);
      else await this.#wait(pool, attempt++);
    }
  }

  /**
   * Gives back what this call has taken. Failures are logged.
   *
   * @param api With time of its own: the call's may be over
   */
  async undo(api: WhereaboutsApi): Promise<void> {
    const { log } = this.#options;
    for (const claim of [...this.#made].reverse()) {
      await undoClaim(await this.#complete(claim, api), api, log);
    }
  }

  /** Adds the reservation whose creation has failed, if it exists. */
  async #complete(claim: Claim, api: WhereaboutsApi): Promise<Claim> {
    const { claim: reserved, name = "" } = this.#reserving ?? {};
    if (claim !== reserved) return claim;
    try {
      const found = await api.findReservation(name);
      const uid = found && this.#isOwn(found) && found.metadata?.uid;
      return uid ? { ...claim, reservation: { name, uid } } : claim;
    } catch (error) {
      const { log } = this.#options;
      log.error("Cannot find a reservation", { name, error: `${error}` });
      return claim;
    }
  }

  /** @returns Undefined after a conflict */
  async #try(pool: Pool, attempt: number): Promise<ClaimedAddress | undefined> {
    const { api, log } = this.#options;
    const current = await this.#readPool(pool);
    if (current === undefined) return undefined;
    this.#checkRefusals(pool, current);
    const records = listRecords(current, pool.range.cidr, log);
    const own = this.#findOwn(pool, records);
    const claimed = own === undefined
      ? await this.#take(pool, { current, records, attempt })
      : await this.#adopt(pool, own);
    if (claimed === undefined) return undefined;
    this.#refusals = 0;
    if (!this.#options.isOverlapping) return claimed;
    const name = reservationName(this.#options.networkName, claimed.ip);
    this.#reserving = { claim: claimed.claim, name };
    const isNew = this.#made.has(claimed.claim);
    const uid = await this.#reserve(pool, name, isNew);
    this.#reserving = undefined;
    if (uid !== undefined) {
      return this.#extend(claimed, { name, uid });
    }
    await this.#giveBack(claimed.claim);
    this.#foreign.add(name);
    if (!this.#hasListed) await this.#listForeign(api);
    return undefined;
  }

  async #readPool({ name, range }: Pool): Promise<IpPool | undefined> {
    const { api } = this.#options;
    return await api.findPool(name) ??
      await api.createPool(name, String(range.cidr)) ??
      await api.findPool(name);
  }

  /** @throws {CniError} 7 if the server refuses a patch that it should accept */
  #checkRefusals({ name }: Pool, { metadata }: IpPool): void {
    const version = `${name} ${metadata?.resourceVersion}`;
    if (version !== this.#lastVersion) this.#refusals = 0;
    this.#lastVersion = version;
    if (this.#refusals++ < MAX_REFUSALS) return;
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `the API server refuses to change IPPool "${name}"`,
    );
  }

  /** Finds the record of the pod's interface. */
  #findOwn(
    { name }: Pick<Pool, "name">,
    records: readonly PoolRecord[],
  ): PoolRecord | undefined {
    const { owner } = this.#options;
    const known = this.#claims.filter(({ pool }) => pool === name)
      .map(({ key }) => key);
    const ofPod = records.filter(({ key, value }) =>
      value.podref === owner.podref && !known.includes(key)
    );
    const exact = ofPod.find(({ value }) => value.ifname === owner.ifname);
    // Old releases did not record the interface.
    const [only, ...others] = ofPod;
    const isOld = others.length === 0 && only?.value.ifname === undefined;
    return exact ?? (isOld ? only : undefined);
  }

  /** Takes over the record of the pod's earlier sandbox. */
  async #adopt(
    { name }: Pool,
    record: PoolRecord,
  ): Promise<ClaimedAddress | undefined> {
    const { api, owner } = this.#options;
    const { key, value, ip } = record;
    const isCurrent = value.id === owner.id && value.ifname === owner.ifname;
    const path = allocationPath(key);
    const isDone = isCurrent || await api.patchPool(name, [
      { op: "test", path, value },
      { op: "replace", path, value: owner },
    ]);
    if (!isDone) return undefined;
    const claim = { pool: name, key, value: owner };
    if (this.#tried.has(`${name}/${key}`)) this.#made.add(claim);
    return { ip, claim };
  }

  /** Takes a free address. */
  async #take(
    { name, range }: Pool,
    { current, records, attempt }: {
      readonly current: IpPool;
      readonly records: readonly PoolRecord[];
      readonly attempt: number;
    },
  ): Promise<ClaimedAddress | undefined> {
    const { api, owner, networkName } = this.#options;
    const taken = new Set(records.map(({ offset }) => offset));
    const { network } = range.cidr;
    const foreign = this.#foreign;
    const ip = chooseAddress({
      range,
      attempt,
      random: this.#random,
      isTaken: (offset) =>
        taken.has(offset) ||
        foreign.size > 0 &&
          foreign.has(reservationName(networkName, network.add(offset))),
    });
    if (ip === undefined) throw rangeIsFull(range);
    const key = offsetKey(range.cidr, ip);
    const path = allocationPath(key);
    const claim = { pool: name, key, value: owner };
    // Before the request: its answer may be lost.
    this.#made.add(claim);
    this.#tried.add(`${name}/${key}`);
    const after = await api.patchPool(name, [
      ...current.spec.allocations ? [] : [
        { op: "test", path: "/spec/allocations", value: null } as const,
        { op: "add", path: "/spec/allocations", value: {} } as const,
      ],
      { op: "test", path, value: null },
      { op: "add", path, value: owner },
    ]);
    if (after === undefined) {
      this.#made.delete(claim);
      return undefined;
    }
    const { log } = this.#options;
    const others = listRecords(after, range.cidr, log)
      .filter((record) => record.key !== key);
    if (this.#findOwn({ name }, others) === undefined) return { ip, claim };
    // Another ADD of the same interface came first: its address counts.
    await this.#giveBack(claim);
    return undefined;
  }

  async #giveBack(claim: Claim): Promise<void> {
    await releaseClaim(claim, this.#options.api);
    this.#made.delete(claim);
  }

  /**
   * Returns the UID of the reservation; undefined if it is foreign. An earlier
   * sandbox's reservation is replaced if the record is new: that sandbox's DEL
   * has removed the old record, and deletes the reservation next.
   */
  async #reserve(
    pool: Pool,
    name: string,
    isNew: boolean,
  ): Promise<string | undefined> {
    const { api, owner: { podref, ifname } } = this.#options;
    let isOlder = isNew;
    for (let attempt = 0;;) {
      const made = await api.createReservation(name, { podref, ifname });
      const found = made ?? await api.findReservation(name);
      if (found !== undefined) {
        if (!this.#isOwn(found)) return undefined;
        const uid = found.metadata?.uid ?? "";
        if (made !== undefined || !isOlder) return uid;
        await api.deleteReservation(name, uid);
        isOlder = false;
      } // It existed, and is gone; or the answer was lost.
      else await this.#wait(pool, attempt++);
    }
  }

  #isOwn({ spec }: Reservation): boolean {
    const { podref, ifname } = this.#options.owner;
    return spec.podref === podref && (spec.ifname ?? ifname) === ifname;
  }

  #extend(
    { ip, claim }: ClaimedAddress,
    reservation: { readonly name: string; readonly uid: string },
  ): ClaimedAddress {
    const extended = { ...claim, reservation };
    if (this.#made.delete(claim)) this.#made.add(extended);
    return { ip, claim: extended };
  }

  /** Learns once which addresses are reserved, instead of one by one. */
  async #listForeign(api: WhereaboutsApi): Promise<void> {
    const { podref } = this.#options.owner;
    for await (const { metadata, spec } of api.listReservations()) {
      if (spec.podref !== podref) this.#foreign.add(metadata?.name ?? "");
    }
    this.#hasListed = true;
  }

  async #wait(pool: Pool, attempt: number): Promise<void> {
    await pause(pauseMs(attempt, this.#random), this.#options.signal);
    this.#checkTime(pool, attempt);
  }

  #checkTime({ name }: Pool, attempt: number): void {
    if (!this.#options.signal.aborted) return;
    throw new CniError(
      ErrorCode.TryAgainLater,
      `time limit exceeded while allocating from IPPool "${name}"`,
      { details: `after ${attempt + 1} conflicts with other writers` },
    );
  }
}
