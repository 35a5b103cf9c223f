/**
 * The attachments of a container in libcni's cache, each with its configuration,
 * arguments and result. If the scratch file is incomplete, DEL detaches these as
 * well.
 *
 * The cache contains completed attachments; the scratch file also contains
 * attachments that ADD started. If neither is complete, merging both loses the least.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import { describeError } from "../../../base/error.ts";
import type {
  AttachmentCache,
  CachedAttachment,
} from "../../../libcni/cache.ts";
import { restoreArgs } from "../../../libcni/operation.ts";
import type { Log } from "../../../base/log/log.ts";
import {
  asAdded,
  type NetworkAttachment,
  networkOf,
} from "../model/attachment.ts";
import { loadDelegate } from "../model/delegate.ts";

/**
 * Lists a container's attachments in the cache, in the order of their ADDs. The
 * master, with the interface name of the runtime, comes first.
 *
 * @param args The arguments of DEL, whose namespace replaces the cached namespace,
 * which might have been deleted
 * @param log Receives warnings about unreadable files
 */
export function listCachedAttachments(
  cache: Pick<AttachmentCache, "listAttachments">,
  args: Pick<CmdArgs, "containerId" | "netns" | "ifName" | "args">,
  log: Pick<Log, "warn">,
): NetworkAttachment[] {
  // In the cache, "" selects every container.
  if (args.containerId === "") return [];
  return cache.listAttachments(args.containerId)
    .sort((left, right) => compareAge(left, right, args.ifName))
    .flatMap((found) => restore(found, args, log));
}

/** Compares by age; at equal times, by interface name. */
function compareAge(
  left: CachedAttachment,
  right: CachedAttachment,
  masterIfName: string,
): number {
  const rank = ({ ifName, since }: CachedAttachment): (number | string)[] => [
    ifName === masterIfName ? 0 : 1,
    since.getTime(),
    // Sorts net10 after net2.
    ifName.length,
    ifName,
  ];
  return compareLists(rank(left), rank(right));
}

function compareLists(
  left: readonly (number | string)[],
  right: readonly (number | string)[],
): number {
  for (const [index, item] of left.entries()) {
    const other = right[index];
    if (other !== undefined && item !== other) return item < other ? -1 : 1;
  }
  return 0;
}

function restore(
  found: CachedAttachment,
  { containerId, netns, args }: Pick<CmdArgs, "containerId" | "netns" | "args">,
  log: Pick<Log, "warn">,
): NetworkAttachment[] {
  try {
    const { name, conf } = loadDelegate(found.config);
    const bare = { containerId, netns, ifName: found.ifName, rawArgs: args };
    return [{
      name,
      network: networkOf({ conf }),
      conf: restoreArgs(bare, found),
    }];
  } catch (error) {
    log.warn("Cannot use a cached attachment", {
      file: found.path,
      error: describeError(error),
    });
    return [];
  }
}

/**
 * Merges the attachments of the scratch file and the cache. Attachments in both keep
 * their position in the scratch file, and are returned as ADD received them;
 * attachments that are only in the cache come last.
 */
export function joinAttachments(
  fromScratch: readonly NetworkAttachment[],
  fromCache: readonly NetworkAttachment[],
): NetworkAttachment[] {
  const cached = new Map(fromCache.map((known) => [identify(known), known]));
  const first = fromScratch.map((known) => {
    const better = cached.get(identify(known));
    cached.delete(identify(known));
    if (better === undefined) return known;
    const network = asAdded(known.network, better.network);
    return { ...better, network, name: known.name };
  });
  return [...first, ...cached.values()];
}

/** Lists the attachments that are only in the cache. */
function listUntold(
  fromScratch: readonly NetworkAttachment[],
  fromCache: readonly NetworkAttachment[],
): NetworkAttachment[] {
  const recorded = new Set(fromScratch.map(identify));
  return fromCache.filter((known) => !recorded.has(identify(known)));
}

/**
 * Finds the attachments of this call if the container's scratch file belongs to a
 * different call. A runtime can attach a container several times, each time with a
 * different interface name, and the last ADD replaces the file.
 *
 * The file belongs to a different call if the cache contains its master network with
 * a different interface name, or a different network with this interface name.
 *
 * @param fromScratch The attachments in the file, the master first
 * @returns Undefined if the file might belong to this call
 */
export function findBesideOthers(
  fromScratch: readonly NetworkAttachment[],
  fromCache: readonly NetworkAttachment[],
): NetworkAttachment[] | undefined {
  const [master] = fromScratch;
  if (master === undefined) return undefined;
  const untold = listUntold(fromScratch, fromCache);
  const isMasters = ({ network }: NetworkAttachment): boolean =>
    network.name === master.network.name;
  const isOthers = untold.some((known) =>
    isMasters(known) || known.conf.ifName === master.conf.ifName
  );
  return isOthers ? untold.filter((known) => !isMasters(known)) : undefined;
}

/** An interface name cannot contain a space. */
function identify({ network, conf }: NetworkAttachment): string {
  return `${conf.ifName} ${network.name}`;
}
