/**
 * DEL and GC: release addresses.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { type TearDownStep, throwAll, tryAll } from "../../base/rollback.ts";
import { listedTest } from "../../cni/config/types.ts";
import { SANDBOX_PATH, unusedNow } from "./claims/ipam_claim.ts";
import { NoSliceError, type Pool } from "./pools.ts";
import type { UsedClaim } from "./allocation_files.ts";
import {
  placeOf,
  releaseAllocation,
  releaseOwned,
  removeRecords,
} from "./release.ts";
import { type Session, toStorageError } from "./session.ts";

/**
 * Releases an attachment's addresses: with its allocation file or, without one,
 * by searching the pools of the current ranges.
 *
 * @param removed Places of records that are already removed
 * @throws {CniError} If the configuration is invalid
 * @throws {KubeError} If a request failed; the rest is released
 */
export async function release(
  session: Session,
  removed: ReadonlySet<string> = new Set(),
): Promise<void> {
  const { owner, files, api } = session;
  if (files.read(owner, api.namespace) !== undefined) {
    return await releaseRecorded(session, removed);
  }
  const { settings, call: { log } } = session;
  const { networkName, isOverlapping } = settings;
  const shared = { owner, networkName, isOverlapping, api, log };
  await tryAll(
    (await findOwnPools(session)).map((pool): TearDownStep => [
      `release the address in IPPool "${pool.name}"`,
      () => named(releaseOwned({ ...shared, pool })),
    ]),
  );
  // The file might be of pools in a different namespace.
  files.remove(owner);
}

/** An ADD without a slice allocated nothing, and its DEL must succeed. */
async function findOwnPools(session: Session): Promise<Pool[]> {
  try {
    return await session.pools();
  } catch (error) {
    if (!(error instanceof NoSliceError)) throw error;
    const { log } = session.call;
    log.warn("No address to release", { problem: describeError(error) });
    return [];
  }
}

async function releaseRecorded(
  session: Session,
  removed: ReadonlySet<string>,
): Promise<void> {
  const { api, owner, files } = session;
  const { claims = [], ipamClaim } = files.read(owner, api.namespace) ?? {};
  if (ipamClaim !== undefined) await leave(session, ipamClaim);
  await tryAll(
    claims.map((claim): TearDownStep => [
      `release offset ${claim.key} of IPPool "${claim.pool}"`,
      () => named(releaseAllocation(claim, api, removed.has(placeOf(claim)))),
    ]),
  );
  files.remove(owner);
}

/** How long DEL waits to record that a pod does not use a claim, in ms. */
const LEAVE_MS = 700;

/**
 * Records in the status of an IPAMClaim that the pod no longer uses it. Nothing
 * depends on that, so DEL continues without it.
 */
async function leave(
  { claims, owner: { containerId }, call: { log } }: Session,
  { namespace, name, uid, pod, isTimed, namesSandbox }: UsedClaim,
): Promise<void> {
  const path = "/status/conditions/-";
  try {
    await claims(LEAVE_MS).patchStatus(namespace, name, [
      { op: "test", path: "/metadata/uid", value: uid },
      { op: "test", path: "/status/ownerPod/name", value: pod },
      ...namesSandbox
        ? [
          {
            op: "test",
            path: `${SANDBOX_PATH}/message`,
            value: containerId,
          } as const,
          { op: "remove", path: SANDBOX_PATH } as const,
        ]
        : [],
      { op: "remove", path: "/status/ownerPod" },
      ...isTimed ? [{ op: "add", path, value: unusedNow() } as const] : [],
    ]);
  } catch (error) {
    const claim = `${namespace}/${name}`;
    const problem = describeError(error);
    log.warn("An IPAMClaim still names its pod", { claim, error: problem });
  }
}

/** Gives a failure its CNI code. */
async function named(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    throw await toStorageError(error);
  }
}

/**
 * Releases the addresses of this node's stale attachments.
 *
 * @throws {KubeError} If a request failed; the rest is released
 */
export async function releaseStaleAttachments(session: Session): Promise<void> {
  const { call: { validAttachments: valid }, files, api } = session;
  // A missing list is not an empty list: the valid attachments are unknown.
  if (valid === undefined) return;
  const isValid = listedTest(valid);
  const stale = files.list().filter((one) => !isValid(one))
    .map((one) => ({ ...one, podref: "" }));
  const removed = await removeRecords(
    stale.flatMap((owner) => files.read(owner, api.namespace)?.claims ?? []),
    api,
  );
  await tryAllAtOnce(
    stale.map((owner): TearDownStep => [
      `release the addresses of ${owner.containerId}`,
      () => release({ ...session, owner }, removed),
    ]),
  );
}

/** How many attachments GC releases at the same time, with separate requests. */
const RELEASES_AT_ONCE = 8;

/** Runs all steps like {@linkcode tryAll}, but several at the same time. */
async function tryAllAtOnce(steps: readonly TearDownStep[]): Promise<void> {
  const failures: unknown[] = [];
  const left = steps.values();
  const work = async (): Promise<void> => {
    for (const step of left) {
      await tryAll([step]).catch((error) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: RELEASES_AT_ONCE }, work));
  throwAll(failures, `${failures.length} steps failed`);
}
