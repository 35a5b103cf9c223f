/**
 * DEL: detaching a pod from all its networks.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import { throwAll } from "../../cni/rollback.ts";
import {
  findBesideOthers,
  joinAttachments,
  type KnownAttachment,
  listAttachments,
  listCachedAttachments,
} from "./memory/cached_attachments.ts";
import { type Delegate, injectCniVersion } from "./networks/delegate.ts";
import { detach } from "./detach.ts";
import { isCached } from "./memory/recall.ts";
import type { Session } from "./session.ts";

/**
 * Detaches a pod from all networks that anything is known of.
 *
 * What was attached is on disk. If nothing is there, there may be nothing to
 * detach: then DEL tries what it can and succeeds, because a failure would keep
 * the pod in `Terminating` for ever.
 *
 * Source: multus-cni pkg/multus/multus.go `CmdDel`.
 *
 * @throws What failed; the scratch file stays then, for another try
 */
export async function del(session: Session): Promise<void> {
  const { call: { args: { containerId } }, scratch } = session;
  const { attachments, isScratchOthers } = findOwn(session);
  if (isScratchOthers) return await detachEach(session, attachments);
  if (attachments.length > 0) await detachEach(session, attachments);
  else if (scratch.has(containerId)) {
    await detachEach(session, await askFor(session));
  } else await detachUnknown(session);
  scratch.remove(containerId);
}

/** Detaches a container that may never have been attached. */
async function detachUnknown(session: Session): Promise<void> {
  try {
    await detachEach(session, await askFor(session));
  } catch (error) {
    session.log.warn("Cannot detach a container that nothing is known of", {
      error: describeError(error),
    });
  }
}

/**
 * Detaches a container, last to first, whatever fails.
 *
 * @throws The only failure, or an AggregateError of several
 */
export async function detachEach(
  session: Session,
  attachments: readonly KnownAttachment[],
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

/** What is remembered of one attachment by multus. */
interface Remembered {
  /** In the order of ADD. */
  readonly attachments: readonly KnownAttachment[];
  /** The scratch file is that of another attachment of the container. */
  readonly isScratchOthers: boolean;
}

/**
 * Finds what was attached by the ADD of this call: what the scratch file tells,
 * and if that is not all, or is another's, what libcni's cache knows.
 */
export function findOwn(session: Session): Remembered {
  const { call: { args }, scratch, cache, log } = session;
  const state = scratch.readWhatIsLeft(args.containerId);
  const known = describeAll(session, state.delegates);
  const own = { attachments: known, isScratchOthers: false };
  const [master] = known;
  const isMasterCached = master !== undefined &&
    isCached(session, master.network, master.conf);
  if (state.isComplete && isMasterCached) return own;
  const cached = listCachedAttachments(cache, args, log);
  if (!state.isComplete) {
    return { ...own, attachments: joinAttachments(known, cached) };
  }
  const rest = findBesideOthers(known, cached);
  return rest ? { attachments: rest, isScratchOthers: true } : own;
}

/**
 * Describes attachments as ADD did. A list without a version has multus' own
 * then, except for CHECK, which it does not have.
 */
export function describeAll(
  { call: { command, args, config, cniVersion }, k8s }: Session,
  delegates: readonly Delegate[],
): KnownAttachment[] {
  const version = command === "CHECK" ? "" : cniVersion;
  return listAttachments({
    delegates: delegates.map((one) => injectCniVersion(one, version)),
    args,
    k8s,
    capabilityArgs: config.runtimeConfig,
  });
}

/** Finds what the container may be attached to; nothing if that is impossible. */
async function askFor(session: Session): Promise<KnownAttachment[]> {
  try {
    const { rediscoverDelegates } = await import("./memory/rediscover.ts");
    return describeAll(session, await rediscoverDelegates(session));
  } catch (error) {
    session.log.warn("Nothing is known of the container", {
      error: describeError(error),
    });
    return [];
  }
}
