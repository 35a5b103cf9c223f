/**
 * The attachments of a container in libcni's cache, each with its configuration,
 * arguments and result. DEL undoes these if the scratch file is incomplete.
 *
 * The cache has completed attachments; the scratch file also has those that ADD
 * began. If neither is complete, joining both loses the least.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import { describeError } from "../../../cni/error.ts";
import type {
  AttachmentCache,
  CachedAttachment,
} from "../../../cni/libcni/cache.ts";
import type { NetworkRuntime } from "../../../cni/libcni/api.ts";
import type { Network } from "../../../cni/libcni/operation.ts";
import {
  restoreArgs,
  type RuntimeConf,
} from "../../../cni/libcni/runtime_conf.ts";
import type { Log } from "../../../cni/log/log.ts";
import { type KnownAttachment, networkOf } from "../model/attachment.ts";
import { loadDelegate } from "../model/delegate.ts";

/**
 * Lists a container's attachments in the cache, in the order of their ADDs. The
 * master, with the interface name of the runtime, comes first.
 *
 * @param args Of DEL; its namespace replaces the cached one, which may be gone
 * @param log Receives warnings about unreadable files
 */
export function listCachedAttachments(
  cache: Pick<AttachmentCache, "listAttachments">,
  args: Pick<CmdArgs, "containerId" | "netns" | "ifName" | "args">,
  log: Pick<Log, "warn">,
): KnownAttachment[] {
  // For the cache, "" selects every container.
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
    // Puts net10 after net2.
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
): KnownAttachment[] {
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
 * Returns a network as ADD received it.
 *
 * The Go version up to 4.3.0 writes only a few plugin keys into its scratch file
 * if the list comes from a file. libcni's cache has all keys, but not the plugins
 * that were appended from the folder next to that file.
 *
 * @param told The network in the scratch file
 * @param cached The network in libcni's cache
 */
export function asAdded(
  told: KnownAttachment["network"],
  cached: KnownAttachment["network"],
): KnownAttachment["network"] {
  const appended = told.plugins.slice(cached.plugins.length);
  return {
    ...cached,
    cniVersion: cached.cniVersion || told.cniVersion,
    plugins: [...cached.plugins, ...appended],
  };
}

/**
 * Joins the attachments of the scratch file and the cache. Attachments in both
 * keep their position in the scratch file, and are returned as ADD received them;
 * those in the cache only come last.
 */
export function joinAttachments(
  fromScratch: readonly KnownAttachment[],
  fromCache: readonly KnownAttachment[],
): KnownAttachment[] {
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

/** Lists the attachments that only the cache has. */
function listUntold(
  fromScratch: readonly KnownAttachment[],
  fromCache: readonly KnownAttachment[],
): KnownAttachment[] {
  const told = new Set(fromScratch.map(identify));
  return fromCache.filter((known) => !told.has(identify(known)));
}

/**
 * Finds the attachments of this call if the container's scratch file belongs to
 * another call: a runtime may attach a container several times, each time with
 * another interface name, and the last ADD replaces the file.
 *
 * The file belongs to another call if the cache has its master network under
 * another interface name, or this interface name for another network.
 *
 * @param fromScratch The attachments in the file, the master first
 * @returns Undefined if the file may belong to this call
 */
export function findBesideOthers(
  fromScratch: readonly KnownAttachment[],
  fromCache: readonly KnownAttachment[],
): KnownAttachment[] | undefined {
  const [master] = fromScratch;
  if (master === undefined) return undefined;
  const untold = listUntold(fromScratch, fromCache);
  const isMasters = ({ network }: KnownAttachment): boolean =>
    network.name === master.network.name;
  const isOthers = untold.some((known) =>
    isMasters(known) || known.conf.ifName === master.conf.ifName
  );
  return isOthers ? untold.filter((known) => !isMasters(known)) : undefined;
}

/** An interface name cannot contain a space. */
function identify({ network, conf }: KnownAttachment): string {
  return `${conf.ifName} ${network.name}`;
}

/** A network and the attachment to it. */
export type Recalled = Pick<KnownAttachment, "network" | "conf">;

/** Reads the cache of a call, and reports what it cannot read. */
export interface CacheReader {
  readonly runtime: Pick<NetworkRuntime, "findCachedConfig">;
  readonly log: Pick<Log, "warn">;
}

/**
 * Returns an attachment with the configuration and arguments of its ADD, if
 * libcni's cache has them. A scratch file has no port mappings and no bandwidth,
 * and may lack plugin keys, and the annotation may have changed.
 */
export function recall(
  { runtime, log }: CacheReader,
  attachment: Recalled,
): Recalled {
  const { network, conf } = attachment;
  const doWithout = (error: unknown): void =>
    log.warn("Cannot read the cached arguments of ADD", {
      network: network.name,
      error: describeError(error),
    });
  const cached = attempt(
    () => runtime.findCachedConfig(network, conf),
    doWithout,
  );
  if (cached === undefined) return attachment;
  const added = attempt(
    () => asAdded(network, networkOf(loadDelegate(cached.config))),
    doWithout,
  );
  return { network: added ?? network, conf: cached.conf };
}

function attempt<T>(
  run: () => T,
  onError: (error: unknown) => void,
): T | undefined {
  try {
    return run();
  } catch (error) {
    onError(error);
    return undefined;
  }
}

/**
 * Reports whether libcni's cache has an attachment, that is, whether its ADD
 * completed. An unreadable file counts.
 */
export function isCached(
  { runtime }: Pick<CacheReader, "runtime">,
  network: Pick<Network, "name">,
  conf: RuntimeConf,
): boolean {
  try {
    return runtime.findCachedConfig(network, conf) !== undefined;
  } catch {
    return true;
  }
}
