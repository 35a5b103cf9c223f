/**
 * DEL: detaches a pod from all its networks.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import { throwAll } from "../../../base/rollback.ts";
import { detach, isCached } from "../attach/detach.ts";
import {
  findBesideOthers,
  joinAttachments,
  listCachedAttachments,
} from "../records/cached_attachments.ts";
import {
  listAttachments,
  type NetworkAttachment,
} from "../model/attachment.ts";
import type { Delegate } from "../model/delegate.ts";
import { injectCniVersion } from "../model/edit_delegate.ts";
import type { Session } from "./session.ts";

/**
 * Detaches a pod from all its known networks.
 *
 * ADD records attachments on disk. Without a record, there is probably nothing to
 * detach: DEL then detaches as much as possible and succeeds, because a failure would
 * keep the pod in `Terminating` forever.
 *
 * Source: multus-cni pkg/multus/multus.go `CmdDel`.
 *
 * @throws The failure; the scratch file is kept for the next DEL
 */
export async function del(session: Session): Promise<void> {
  const { call: { args: { containerId } }, scratch } = session;
  const { attachments, isScratchOfAnother } = findRecorded(session);
  if (isScratchOfAnother) return await detachEach(session, attachments);
  if (attachments.length > 0) await detachEach(session, attachments);
  else if (scratch.has(containerId)) {
    await detachEach(session, await findUnrecorded(session));
  } else await detachUnknown(session);
  scratch.remove(containerId);
}

/** Detaches a container that was possibly never attached. */
async function detachUnknown(session: Session): Promise<void> {
  try {
    await detachEach(session, await findUnrecorded(session));
  } catch (error) {
    session.log.warn("Cannot detach a container without a record", {
      error: describeError(error),
    });
  }
}

/**
 * Detaches a container, last network first, and continues after failures.
 *
 * @throws The only failure, or an AggregateError of several
 */
export async function detachEach(
  session: Session,
  attachments: readonly NetworkAttachment[],
): Promise<void> {
  const { call: { signal }, log } = session;
  const failures: unknown[] = [];
  for (const attachment of attachments.toReversed()) {
    try {
      const { name } = attachment;
      await log.time(name, () => detach(session, attachment, signal));
    } catch (error) {
      failures.push(error);
    }
  }
  throwAll(failures, `errors: ${failures.map(describeError).join(" / ")}`);
}

/** The recorded attachments of an ADD of multus. */
interface RecordedAttachments {
  /** The attachments in the order of ADD. */
  readonly attachments: readonly NetworkAttachment[];
  /** Whether the scratch file belongs to a different attachment of the container. */
  readonly isScratchOfAnother: boolean;
}

/**
 * Finds the attachments of this call's ADD: in the scratch file and, if that is
 * incomplete or belongs to a different attachment, in libcni's cache.
 */
export function findRecorded(session: Session): RecordedAttachments {
  const { call: { args }, scratch, cache, log } = session;
  const state = scratch.readUsable(args.containerId);
  const known = describeAll(session, state.delegates);
  const own = { attachments: known, isScratchOfAnother: false };
  const [master] = known;
  const isMasterCached = master !== undefined &&
    isCached(session, master.network, master.conf);
  if (state.isComplete && isMasterCached) return own;
  const cached = listCachedAttachments(cache, args, log);
  if (!state.isComplete) {
    return { ...own, attachments: joinAttachments(known, cached) };
  }
  const rest = findBesideOthers(known, cached);
  return rest ? { attachments: rest, isScratchOfAnother: true } : own;
}

/**
 * Describes attachments like ADD. A list without a version gets multus' version,
 * except for CHECK, which is skipped without a version.
 */
export function describeAll(
  { call: { command, args, config, cniVersion }, k8s }: Session,
  delegates: readonly Delegate[],
): NetworkAttachment[] {
  const version = command === "CHECK" ? "" : cniVersion;
  return listAttachments({
    delegates: delegates.map((one) => injectCniVersion(one, version)),
    args,
    k8s,
    capabilityArgs: config.runtimeConfig,
  });
}

/** Finds the networks to which the container might be attached, if possible. */
async function findUnrecorded(session: Session): Promise<NetworkAttachment[]> {
  try {
    const { rediscoverDelegates } = await import("./rediscover.ts");
    return describeAll(session, await rediscoverDelegates(session));
  } catch (error) {
    session.log.warn("Cannot find the container's networks", {
      error: describeError(error),
    });
    return [];
  }
}
