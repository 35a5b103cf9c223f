/**
 * The requests to the API server.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { KubeClient, RequestOptions } from "../../kube/client.ts";
import {
  deleteObject,
  patchJson,
  type PatchOperation,
} from "../../kube/write.ts";
import { isConflict, isNotFound, KubeError } from "../../kube/kube_error.ts";
import { apiPath } from "../../kube/request.ts";
import { backoff, FIRST_PAUSE_MS, LONGEST_PAUSE_MS } from "../../kube/retry.ts";
import type { ObjectMeta } from "../../kube/types.ts";
import { KEEP } from "./claims/ipam_claim.ts";
import type { IpPool, NodeSlicePool, Reservation } from "./objects.ts";

const ROOT = "/apis/whereabouts.cni.cncf.io/v1alpha1";
const API_VERSION = "whereabouts.cni.cncf.io/v1alpha1";
const POOLS = "ippools";
const RESERVATIONS = "overlappingrangeipreservations";
const SLICES = "nodeslicepools";

/** Pools per page: each may have 1.5 MiB, and an answer at most 16. */
const POOLS_PER_PAGE = 8;

/**
 * How often an object is created that the server refuses to create, or whose
 * creation is not answered, and that then does not exist.
 */
const MAX_CREATIONS = 4;

/** The part of a client that this plugin uses. */
export type ApiClient =
  & Pick<KubeClient, "request" | "listPages">
  & Disposable;

/** The objects of one namespace. All methods throw `KubeError`. */
export class WhereaboutsApi {
  /** The namespace of all objects. */
  readonly namespace: string;
  readonly #client: ApiClient;
  readonly #limits: RequestOptions;

  /** Creates an API for one call, with the limits of its requests. */
  constructor(
    client: ApiClient,
    namespace: string,
    limits: RequestOptions = {},
  ) {
    this.#client = client;
    this.namespace = namespace;
    this.#limits = limits;
  }

  /** Reads a pool; returns undefined if it does not exist. */
  async findPool(name: string): Promise<IpPool | undefined> {
    return await this.#find<IpPool>(this.#path(POOLS, name));
  }

  /**
   * Creates an empty pool.
   *
   * @returns Undefined if it exists, possibly because an answer was lost: read it
   */
  async createPool(name: string, range: string): Promise<IpPool | undefined> {
    const spec = { range, allocations: {} };
    const metadata = { name };
    return await this.#create<IpPool>(POOLS, "IPPool", { metadata, spec });
  }

  /**
   * Patches a pool.
   *
   * @returns Its metadata afterwards, without all its allocations; undefined if a test
   *   failed, another writer came first, or the pool does not exist
   */
  async patchPool(
    name: string,
    operations: readonly PatchOperation[],
  ): Promise<ObjectMeta | undefined> {
    const path = this.#path(POOLS, name);
    const options = { ...this.#limits, onlyMetadata: true };
    const patched = await patchJson<Pick<IpPool, "metadata">>(
      this.#client,
      path,
      operations,
      options,
    );
    return patched && (patched.metadata ?? {});
  }

  /** Reads a reservation; returns undefined if it does not exist. */
  async findReservation(name: string): Promise<Reservation | undefined> {
    return await this.#find<Reservation>(this.#path(RESERVATIONS, name));
  }

  /**
   * Creates a reservation.
   *
   * @param metadata Metadata in addition to the name
   * @returns Undefined if it exists, possibly because an answer was lost: read it
   */
  async createReservation(
    name: string,
    spec: Reservation["spec"],
    metadata: ObjectMeta = {},
  ): Promise<Reservation | undefined> {
    const kind = "OverlappingRangeIPReservation";
    return await this.#create<Reservation>(RESERVATIONS, kind, {
      metadata: { ...metadata, name },
      spec,
    });
  }

  /**
   * Deletes a reservation with this UID. Finalizers may keep it.
   *
   * @returns Whether it existed
   */
  async deleteReservation(name: string, uid: string): Promise<boolean> {
    const path = this.#path(RESERVATIONS, name);
    return await deleteObject(this.#client, path, { uid }, this.#limits);
  }

  /**
   * Removes this plugin's finalizer from a deleted reservation with this UID.
   *
   * @returns Whether the reservation no longer exists; false if it changed at the same
   *   time, or has a further finalizer
   */
  async dropFinalizer(name: string, uid: string): Promise<boolean> {
    const path = this.#path(RESERVATIONS, name);
    const after = await patchJson(this.#client, path, [
      { op: "test", path: "/metadata/uid", value: uid },
      { op: "test", path: "/metadata/finalizers", value: [KEEP] },
      { op: "remove", path: "/metadata/finalizers" },
    ], this.#limits);
    return after !== undefined || !await this.deleteReservation(name, uid);
  }

  /**
   * Deletes a claim's reservation with this UID, if it exists.
   *
   * @throws {CniError} 11 if its finalizers keep it
   */
  async deleteClaimReservation(name: string, uid: string): Promise<void> {
    await this.deleteReservation(name, uid);
    if (await this.dropFinalizer(name, uid)) return;
    throw new CniError(
      ErrorCode.TryAgainLater,
      `the finalizers of OverlappingRangeIPReservation "${name}" cannot be removed`,
    );
  }

  /** Reads the slices of a network; returns undefined without them. */
  async findSlices(name: string): Promise<NodeSlicePool | undefined> {
    return await this.#find<NodeSlicePool>(this.#path(SLICES, name));
  }

  /** Lists the reservations page by page. */
  async *listReservations(): AsyncGenerator<Reservation, void> {
    yield* this.#list<Reservation>(RESERVATIONS);
  }

  /** Lists the pools page by page. */
  async *listPools(): AsyncGenerator<IpPool, void> {
    yield* this.#list<IpPool>(POOLS, POOLS_PER_PAGE);
  }

  async *#list<T>(plural: string, limit?: number): AsyncGenerator<T, void> {
    const options = { ...this.#limits, limit };
    const pages = this.#client.listPages<T>(this.#path(plural), options);
    for await (const { items = [] } of pages) yield* items;
  }

  async #find<T>(path: string): Promise<T | undefined> {
    try {
      return await this.#client.request<T>({ path }, this.#limits);
    } catch (error) {
      // Without a reason, the CRD is missing, not the object.
      if (isNotFound(error) && hasReason(error)) return undefined;
      throw error;
    }
  }

  async #create<T>(
    plural: string,
    kind: string,
    { metadata: own, spec }: {
      readonly metadata: ObjectMeta;
      readonly spec: object;
    },
  ): Promise<T | undefined> {
    const metadata = { ...own, namespace: this.namespace };
    const path = this.#path(plural, own.name ?? "");
    for (let failures = 1;; failures++) {
      try {
        return await this.#client.request<T>({
          method: "POST",
          path: this.#path(plural),
          body: { apiVersion: API_VERSION, kind, metadata, spec },
        }, this.#limits);
      } catch (error) {
        if (isConflict(error)) return undefined;
        if (!isUnclear(error)) throw error;
        if (await this.#find<T>(path) !== undefined) return undefined;
        if (failures === MAX_CREATIONS) throw error;
        const waitMs = backoff(failures, FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
        await pause(waitMs, this.#limits.signal);
        if (this.#limits.signal?.aborted) throw error;
      }
    }
  }

  #path(plural: string, ...names: readonly string[]): string {
    return apiPath(ROOT, "namespaces", this.namespace, plural, ...names);
  }
}

/** Reports whether a POST, which the client does not repeat, might have succeeded. */
function isUnclear(error: unknown): boolean {
  return error instanceof KubeError && !error.isTimeout &&
    (error.status === 0 && !error.isUnsent || error.status >= 500);
}

function hasReason(error: unknown): boolean {
  return (error as { readonly reason?: string }).reason === "NotFound";
}

/** First and longest pause after a conflict, in milliseconds; half is random. */
const FIRST_CONFLICT_MS = 10, LONGEST_CONFLICT_MS = 200;

/** Returns how long to wait after a conflict, in milliseconds. */
export function pauseMs(attempt: number, random: () => number): number {
  const longest = Math.min(
    FIRST_CONFLICT_MS * 2 ** attempt,
    LONGEST_CONFLICT_MS,
  );
  return Math.ceil(longest * (1 + random()) / 2);
}
