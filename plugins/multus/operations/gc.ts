/**
 * GC: releases what removed containers left behind.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { attachmentsNamed } from "../../../cni/call/valid_attachments.ts";
import { throwAll } from "../../../cni/call/rollback.ts";
import type { AttachmentId } from "../../../cni/config/types.ts";
import { describeError } from "../../../base/error.ts";
import { toNetworkConfList } from "../../../libcni/conf.ts";
import { AttachmentLocks, lockDirectoryOf } from "../../../libcni/lock.ts";
import { isList } from "../model/delegate.ts";
import { waitUntilReady } from "../pod/pod.ts";
import { findMaster } from "../select/select.ts";
import type { Session } from "./session.ts";
import { withMultusError } from "../model/failure.ts";
import { releaseStaleContainers } from "./stale_containers.ts";

/**
 * Detaches containers that the runtime no longer has from all recorded networks,
 * then runs GC of the master network's plugins for what has no record.
 *
 * The runtime lists one attachment of a container, multus several. The plugins
 * get the runtime's attachments and all recorded attachments of these
 * containers as valid. Without a list from the runtime, every recorded
 * attachment is valid.
 *
 * Source: multus-cni pkg/multus/multus.go `CmdGC`, for which everything in its
 * cache is valid, whatever the runtime lists.
 *
 * @throws All failures, after everything was tried
 */
export async function gc(session: Session): Promise<void> {
  const { call: { validAttachments: valid, config, signal } } = session;
  await withMultusError(
    {},
    () => waitUntilReady(config.readinessIndicatorFile, signal),
  );
  const failures: unknown[] = [];
  try {
    if (valid !== undefined) {
      failures.push(...await releaseStaleContainers(session, valid));
    }
  } catch (error) {
    failures.push(error);
  }
  new AttachmentLocks(lockDirectoryOf(config.cniDir)).sweep();
  try {
    await collectOfMaster(session, valid ?? []);
  } catch (error) {
    failures.push(error);
  }
  throwAll(failures, `errors: ${failures.map(describeError).join(" / ")}`);
}

async function collectOfMaster(
  session: Session,
  valid: readonly AttachmentId[],
): Promise<void> {
  const { runtime, cache, log, call: { signal } } = session;
  const { conf } = await withMultusError({}, () => findMaster(session));
  const list = isList(conf) ? conf : toNetworkConfList(conf);
  // A torn file may be a living container's. GC of the master names its own.
  const unreadable = cache.listUnreadable();
  for (const path of unreadable) {
    if (basename(path).startsWith(`${list.name}-`)) continue;
    log.warn("Leaving a file of the cache that cannot be read", { path });
  }
  const torn = unreadable
    .flatMap((path) => attachmentsNamed(basename(path), list.name));
  const validAttachments = joinValid(valid, cache.listAttachments(), torn);
  await runtime.gcNetworkList(list, { validAttachments, signal });
}

function joinValid(
  ...lists: readonly (readonly AttachmentId[])[]
): AttachmentId[] {
  const all = lists.flat().map(({ containerId, ifName }) =>
    [`${containerId} ${ifName}`, { containerId, ifName }] as const
  );
  return [...new Map(all).values()];
}
