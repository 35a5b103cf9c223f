/**
 * What DEL undoes, when the scratch file does not tell: the attachments of a
 * container as libcni's cache has them, each with its own configuration,
 * arguments and result.
 *
 * The cache knows what was attached; only the scratch file knows of what was
 * begun. Where neither has all, both together lose the least.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/args.ts";
import { describeError } from "../../../cni/error.ts";
import type {
  AttachmentCache,
  CachedAttachment,
} from "../../../cni/libcni/cache.ts";
import { asNetwork } from "../../../cni/libcni/cached_config.ts";
import type { Network } from "../../../cni/libcni/operation.ts";
import {
  restoreArgs,
  type RuntimeConf,
} from "../../../cni/libcni/runtime_conf.ts";
import type { Log } from "../../../cni/log.ts";
import { type Delegate, isList, loadDelegate } from "../networks/delegate.ts";
import { runtimeConfOf, type RuntimeConfSource } from "../delegate_conf.ts";

/** One attachment, as libcni's operations take it. */
export interface KnownAttachment {
  /** What errors call its network: `ns/nad` if that is known, or the CNI name. */
  readonly name: string;
  /** The network, as ADD was given it; a list may say that it has no CHECK. */
  readonly network: Network & { readonly disableCheck?: boolean };
  /** The attachment; of the namespace it is known what the runtime says now. */
  readonly conf: RuntimeConf;
}

/** Makes a network of a delegate, which may be a bare plugin. */
export function networkOf(
  { conf }: Pick<Delegate, "conf">,
): KnownAttachment["network"] {
  return isList(conf) ? conf : asNetwork(conf);
}

/** Lists the attachments of delegates, in their order. */
export function listAttachments(
  source: Omit<RuntimeConfSource, "index">,
): KnownAttachment[] {
  return source.delegates.map((delegate, index) => ({
    name: delegate.name,
    network: networkOf(delegate),
    conf: runtimeConfOf({ ...source, index }),
  }));
}

/**
 * Lists a container's attachments as the cache has them, in the order of their
 * ADDs: the one with the interface that the runtime names, which is the
 * master's, before the others.
 *
 * @param args DEL's; its namespace is taken, for the cached one may be gone
 * @param log Told of what cannot be read
 */
export function listCachedAttachments(
  cache: Pick<AttachmentCache, "listAttachments">,
  args: Pick<CmdArgs, "containerId" | "netns" | "ifName" | "args">,
  log: Pick<Log, "warn">,
): KnownAttachment[] {
  // To the cache no container is every container.
  if (args.containerId === "") return [];
  return cache.listAttachments(args.containerId)
    .sort((left, right) => compareAge(left, right, args.ifName))
    .flatMap((found) => restore(found, args, log));
}

/** Compares by age, and names in their own order where the clock was too slow. */
function compareAge(
  left: CachedAttachment,
  right: CachedAttachment,
  masterIfName: string,
): number {
  const rank = ({ ifName, since }: CachedAttachment): (number | string)[] => [
    ifName === masterIfName ? 0 : 1,
    since.getTime(),
    // So net10 comes after net2.
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
 * Returns a network as ADD was given it.
 *
 * The Go version up to 4.3.0 writes into its scratch file only a few keys of the
 * plugins of a list that comes from a file. libcni's cache has them all, but not
 * the plugins that were appended from the folder beside that file.
 *
 * @param told What the scratch file has
 * @param cached What libcni's cache has
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
 * Joins what the scratch file tells with what the cache does. What both know is
 * in the place where the first has it, and as ADD was given it; what only the
 * cache knows comes last.
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

/** Lists what the cache knows and the scratch file does not tell of. */
export function listUntold(
  fromScratch: readonly KnownAttachment[],
  fromCache: readonly KnownAttachment[],
): KnownAttachment[] {
  const told = new Set(fromScratch.map(identify));
  return fromCache.filter((known) => !told.has(identify(known)));
}

/**
 * Finds what a call of multus has attached beside another of the same container,
 * whose scratch file has taken the place of this one's. A runtime may attach a
 * container several times, with an interface name for each.
 *
 * The file is another's if the cache has its master network with another
 * interface's name, or the name of the interface for another network.
 *
 * @param fromScratch What the file would tell of this call, the master first
 * @returns Undefined if the file may well be this call's
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

/** An interface's name cannot have a blank in it. */
function identify({ network, conf }: KnownAttachment): string {
  return `${conf.ifName} ${network.name}`;
}
