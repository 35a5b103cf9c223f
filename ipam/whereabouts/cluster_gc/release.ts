/**
 * Releases addresses of deleted pods.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import type { WhereaboutsApi } from "../api.ts";
import { allocationPath } from "../objects.ts";
import type { PatchOperation } from "../../../kube/write.ts";
import { ownerOf } from "./claims.ts";
import { attempt, type Released } from "./released.ts";
import type { StaleRecord, StaleReservation, Survey } from "./survey.ts";

/** Records per patch: the API server permits 10 000 operations. */
const RECORDS_PER_PATCH = 1000;

export interface Releases {
  readonly records: readonly Released<StaleRecord>[];
  readonly reservations: readonly Released<StaleReservation>[];
}

/**
 * Releases stale addresses, then their reservations. A record that has changed since is
 * kept, because a different sandbox might have adopted it. Failures are part of the
 * outcome.
 */
export async function releaseStale(
  { records, reservations }: Pick<Survey, "records" | "reservations">,
  api: WhereaboutsApi,
): Promise<Releases> {
  const pools = Map.groupBy(records, ({ pool }) => pool);
  const released: Released<StaleRecord>[] = [];
  for (const [pool, records] of pools) {
    for (let start = 0; start < records.length; start += RECORDS_PER_PATCH) {
      const part = records.slice(start, start + RECORDS_PER_PATCH);
      released.push(...await releaseRecords(pool, part, api));
    }
  }
  // A pod probably uses these addresses again.
  const kept = new Set(
    released.filter(({ problem }) => problem !== undefined)
      .map(({ what }) => ownerOf(what.value)),
  );
  const deleted: Released<StaleReservation>[] = [];
  for (const what of reservations) {
    deleted.push(
      kept.has(what.claim ?? what.podref)
        ? { what, problem: "its address is kept" }
        : await attempt(what, () => deleteStaleReservation(what, api)),
    );
  }
  return { records: released, reservations: deleted };
}

async function deleteStaleReservation(
  { name, uid, claim }: StaleReservation,
  api: WhereaboutsApi,
): Promise<void> {
  if (claim === undefined) await api.deleteReservation(name, uid);
  else await api.deleteClaimReservation(name, uid);
}

/**
 * Creates deleted reservations of IPAMClaims again: the reconciler of upstream
 * whereabouts deletes every reservation without a pod. Their finalizer has kept them.
 * Failures are part of the outcome.
 *
 * @returns Their names
 */
export async function renew(
  { deleted }: Pick<Survey, "deleted">,
  api: WhereaboutsApi,
): Promise<Released<string>[]> {
  const renewed: Released<string>[] = [];
  for (const { metadata, spec } of deleted) {
    const { name = "", uid = "", annotations, finalizers } = metadata ?? {};
    let isDropped = true;
    const outcome = await attempt(name, async () => {
      isDropped = await api.dropFinalizer(name, uid);
      if (!isDropped) return;
      await api.createReservation(name, spec, {
        ...annotations && { annotations },
        ...finalizers && { finalizers },
      });
    });
    if (isDropped) renewed.push(outcome);
  }
  return renewed;
}

/** Releases records of a pool together or, if a record has changed, separately. */
async function releaseRecords(
  pool: string,
  records: readonly StaleRecord[],
  api: WhereaboutsApi,
): Promise<Released<StaleRecord>[]> {
  const operations = records.flatMap(releaseOperations);
  const isAlone = records.length === 1;
  try {
    const isDone = await api.patchPool(pool, operations) !== undefined;
    if (isDone) return records.map((what) => ({ what }));
    if (isAlone) return records.map((what) => ({ what, problem: CHANGED }));
  } catch (error) {
    const problem = describeError(error);
    return records.map((what) => ({ what, problem }));
  }
  const released: Released<StaleRecord>[] = [];
  for (const record of records) {
    released.push(...await releaseRecords(pool, [record], api));
  }
  return released;
}

const CHANGED = "it has changed since";

function releaseOperations({ key, value }: StaleRecord): PatchOperation[] {
  const path = allocationPath(key);
  return [{ op: "test", path, value }, { op: "remove", path }];
}
