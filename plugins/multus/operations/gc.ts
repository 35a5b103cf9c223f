/**
 * GC: releases the resources of deleted containers.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { listPossible } from "../../../cni/call/valid_attachments.ts";
import type { AttachmentId } from "../../../cni/config/types.ts";
import { describeError } from "../../../base/error.ts";
import { attemptInto, throwAll } from "../../../base/rollback.ts";
import type { CacheListing } from "../../../libcni/cache.ts";
import {
  type NetworkConfList,
  toNetworkConfList,
} from "../../../libcni/conf.ts";
import { AttachmentLocks, lockDirectoryOf } from "../../../libcni/lock.ts";
import { isList } from "../model/delegate.ts";
import { waitUntilReady } from "../pod/pod.ts";
import { findMaster } from "../select/select.ts";
import type { Session } from "./session.ts";
import { withMultusError } from "../model/failure.ts";
import { listStale, releaseContainers } from "./stale_containers.ts";

/**
 * Detaches containers that the runtime no longer lists from all recorded networks,
 * then runs GC of the master network's plugins for resources without a record.
 *
 * The runtime lists a single attachment of a container, multus creates several. The
 * plugins receive the runtime's attachments and all recorded attachments of these
 * containers as valid. Without a list from the runtime, every recorded attachment is
 * valid.
 *
 * Source: multus-cni pkg/multus/multus.go `CmdGC`, for which everything in its
 * cache is valid, whatever the runtime lists.
 *
 * @throws All failures, after everything was tried
 */
export async function gc(session: Session): Promise<void> {
  const { call: { validAttachments: valid, config, signal }, cache } = session;
  await withMultusError(
    {},
    () => waitUntilReady(config.readinessIndicatorFile, signal),
  );
  const failures: unknown[] = [];
  const attempt = attemptInto(failures);
  // This might wait for the API server. The cache is read afterwards, because the
  // plugins must keep the attachments that are added during the wait.
  const list = await attempt(() => readMaster(session));
  let listing = await attempt(() => cache.readAll());
  const known = listing?.attachments;
  if (valid !== undefined && known !== undefined) {
    const stale = await attempt(() => listStale(session, valid, known)) ?? [];
    failures.push(...await releaseContainers(session, stale));
    // Detaching has changed the cache.
    if (stale.length > 0) listing = await attempt(() => cache.readAll());
  }
  new AttachmentLocks(lockDirectoryOf(config.cniDir)).sweep();
  if (list !== undefined && listing !== undefined) {
    const files = listing;
    await attempt(() => collectOfMaster(session, list, files));
  }
  throwAll(failures, `errors: ${failures.map(describeError).join(" / ")}`);
}

async function readMaster(session: Session): Promise<NetworkConfList> {
  const { conf } = await withMultusError({}, () => findMaster(session));
  return isList(conf) ? conf : toNetworkConfList(conf);
}

async function collectOfMaster(
  { runtime, log, call: { validAttachments: valid = [], signal } }: Session,
  list: NetworkConfList,
  listing: CacheListing,
): Promise<void> {
  const { attachments, unreadable } = listing;
  // A truncated file might belong to a running container. GC of the master reports
  // its own unreadable files.
  for (const path of unreadable) {
    if (basename(path).startsWith(`${list.name}-`)) continue;
    log.warn("Leaving a file of the cache that cannot be read", { path });
  }
  const torn = listPossible(unreadable, list.name);
  const validAttachments = joinValid(valid, attachments, torn);
  await runtime.gcNetworkList(list, { validAttachments, listing, signal });
}

function joinValid(
  ...lists: readonly (readonly AttachmentId[])[]
): AttachmentId[] {
  const all = lists.flat().map(({ containerId, ifName }) =>
    [`${containerId} ${ifName}`, { containerId, ifName }] as const
  );
  return [...new Map(all).values()];
}
