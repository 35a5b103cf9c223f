/**
 * The attempts of an ADD, and what it repairs between one that fails and the next one.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import { NotFreeError } from "./allocator.ts";
import type { DatedLease } from "./lease.ts";
import { SecondLeaseError } from "./lease_each.ts";
import type { RangeSet } from "./range.ts";
import type { HostLocalConfig } from "./schema.ts";
import type { LeaseStore } from "./store.ts";

/** What is prepared before the store is opened. */
export interface Preparation {
  /** The owner's leases from before it was started again. */
  readonly restarted?: readonly DatedLease[];
  /** Restores lost leases; without it, an unused store is left alone. */
  readonly restore?: (store: LeaseStore) => Promise<void>;
}

/** An attempt to lease the addresses. */
export interface Attempt {
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
export function listAttempts(
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

/** The error of a directory that has handed out no address since it was created. */
export class UnusedStoreError extends Error {}
