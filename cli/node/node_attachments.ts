/**
 * The attachments of this node, as the caches of runtimes and of multus have
 * them.
 *
 * A runtime caches what it attaches. multus is a runtime too: it caches the
 * networks that it attaches in a directory of its own, `cniDir`.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import { ifPossible } from "../../base/files/io.ts";
import { findFileId, isSameFile } from "../../base/files/same_file.ts";
import { AttachmentCache, type CachedAttachment } from "../../libcni/mod.ts";
import {
  type DefinitionLookup,
  findCacheDirectory,
  readDefinitions,
} from "../../plugins/multus/inspect.ts";
import { netnsOf, resultOf, sandboxOf } from "../../libcni/cached_result.ts";
import { isNetns } from "./named_netns.ts";
import type { Directories } from "./network.ts";

/** An attachment on this node. */
export interface NodeAttachment extends CachedAttachment {
  /** The Kubernetes pod, `namespace/name`; undefined if unknown. */
  readonly pod: string | undefined;
  /** Whether the namespace exists; undefined if unknown. */
  readonly isLive: boolean | undefined;
  /** Name of the multus network that made it; undefined if a runtime made it. */
  readonly via: string | undefined;
  /** The NetworkAttachmentDefinition, `namespace/name`; undefined if unknown. */
  readonly definition: string | undefined;
  /** The cache directory; the attachment is in its subdirectory `results`. */
  readonly cacheDir: string;
}

/**
 * Lists the cached attachments of all networks that runtimes made. libcni
 * before 1.2 cached no namespace; see {@linkcode withNetns}.
 *
 * @throws {CniError} 5 If the cache cannot be read
 */
export function listAttachments(
  { cacheDir }: Pick<Directories, "cacheDir">,
): CachedAttachment[] {
  return new AttachmentCache(cacheDir).listAttachments().map(withNetns);
}

/** Takes the namespace from the result if the attachment has none. */
export function withNetns(cached: CachedAttachment): CachedAttachment {
  return { ...cached, netns: netnsOf(cached) };
}

/** Reports whether ADD made the interface. */
export function hadInterface(attachment: CachedAttachment): boolean {
  return sandboxOf(attachment) !== "";
}

/**
 * Reports whether an attachment belongs to the namespace at a path, even if it was
 * made under another path. Of a deleted namespace, only the paths are left:
 * `/run/netns/a` is `/var/run/netns/a`.
 */
export function isOfNetns(
  { netns }: Pick<CachedAttachment, "netns">,
  path: string,
): boolean {
  return netns !== "" && (netns === path || isSameFile(netns, path) ||
    basename(netns) === basename(path) &&
      resolveLinks(netns) === resolveLinks(path));
}

/** Resolves the links among the directories of a path that exist. */
function resolveLinks(path: string): string {
  const directory = dirname(path);
  if (directory === path) return path;
  const resolved = ifPossible(() => Deno.realPathSync(directory)) ??
    resolveLinks(directory);
  return join(resolved, basename(path));
}

/**
 * Lists the attachments of runtimes, followed by the attachments of multus.
 *
 * multus caches the pod's default network as well. It has the container ID and
 * interface name of the runtime's attachment to multus; see
 * {@linkcode isCovered} and {@linkcode listInterfaces}.
 *
 * @throws {CniError} 5 If the cache cannot be read
 */
export function listNodeAttachments(
  { cacheDir }: Pick<Directories, "cacheDir">,
): NodeAttachment[] {
  const own = listAttachments({ cacheDir }).map((cached) => ({
    ...cached,
    via: undefined,
    definition: undefined,
    cacheDir,
  }));
  const masters = own.flatMap((cached) => {
    const directory = findCacheDirectory(cached);
    return directory === undefined ? [] : [{ ...cached, directory }];
  });
  const directories = new Set(masters.map(({ directory }) => directory));
  directories.add(join(cacheDir, "multus"));
  const ofMultus = [...directories].flatMap((cacheDir) => {
    const definitions = new Map<string, DefinitionLookup>();
    return listAttachments({ cacheDir }).map((cached) => {
      const { containerId } = cached;
      const master = masters.find((one) => one.containerId === containerId);
      const lookup = definitions.get(containerId) ??
        readDefinitions(cacheDir, containerId);
      definitions.set(containerId, lookup);
      return {
        ...cached,
        netns: cached.netns || (master?.netns ?? ""),
        via: master?.network ?? "multus",
        definition: lookup(cached.ifName),
        cacheDir,
      };
    });
  });
  return addPods([...own, ...ofMultus]);
}

/** Reports whether a runtime's attachment stands for an attachment of multus. */
export function isCovered(
  { via, containerId, ifName }: NodeAttachment,
  all: readonly NodeAttachment[],
): boolean {
  return via !== undefined &&
    all.some((other) =>
      other.via === undefined && other.containerId === containerId &&
      other.ifName === ifName
    );
}

/**
 * Lists each interface once. If a runtime and multus have attached it, the
 * attachment of multus remains, because it has the plugins that made it.
 */
export function listInterfaces(
  all: readonly NodeAttachment[],
): NodeAttachment[] {
  return all.filter(({ via, containerId, ifName }) =>
    via !== undefined ||
    !all.some((other) =>
      other.via !== undefined && other.containerId === containerId &&
      other.ifName === ifName
    )
  );
}

/**
 * Reports whether an attachment has loopback addresses only: containerd caches the
 * result of the plugin loopback, which attaches a pod to no network.
 */
export function isLoopbackOnly(
  attachment: Pick<CachedAttachment, "result">,
): boolean {
  const { ips = [] } = resultOf(attachment) ?? {};
  return ips.length > 0 && ips.every(({ address }) => address.ip.isLoopback);
}

/** Lists the addresses of an attachment's result; empty if it cannot be decoded. */
export function listAddresses(
  attachment: Pick<CachedAttachment, "result">,
): string[] {
  return resultOf(attachment)?.ips.map(({ address }) => `${address}`) ?? [];
}

/**
 * Completes attachments with their pods. Attachments without a pod get the pod
 * of their namespace.
 */
function addPods(
  found: readonly Omit<NodeAttachment, "pod" | "isLive">[],
): NodeAttachment[] {
  const pods = new Map<string, string>();
  const idOf = ({ netns }: { readonly netns: string }): string =>
    netns === "" ? "" : findFileId(netns) ?? netns;
  const located = found.map((one) => {
    const pod = findPod(one);
    const id = idOf(one);
    if (pod !== undefined && id !== "") pods.set(id, pod);
    return { one, pod, id };
  });
  return located.map(({ one, pod, id }) => ({
    ...one,
    pod: pod ?? pods.get(id),
    isLive: one.netns === "" ? undefined : isNetns(one.netns),
  }));
}

/** Finds the pod in the arguments that Kubernetes runtimes pass. */
function findPod({ cniArgs }: CachedAttachment): string | undefined {
  const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: name } = Object
    .fromEntries<string | undefined>(cniArgs);
  return namespace && name ? `${namespace}/${name}` : undefined;
}
