/**
 * GC: removing the remains of attachments that the runtime no longer has.
 *
 * @module
 */

import { findImpossible, isNothingToUndo } from "../cni/invoke/find.ts";
import { basename } from "@std/path/posix";
import { attemptInto, throwAll } from "../base/rollback.ts";
import { type AttachmentId, listedTest } from "../cni/config/types.ts";
import { COMMAND_SINCE } from "../cni/version.ts";
import type { CachedAttachment, CacheListing } from "./cache.ts";
import type { NetworkConfList, PluginList } from "./conf.ts";
import type { DelOptions } from "./del.ts";
import {
  buildRequest,
  dropRecycledNetns,
  mayHaveVersion,
  type OperationOptions,
  type PluginTools,
  runPlugin,
  type Tools,
} from "./operation.ts";

/** Options of GC. */
export interface GcOptions extends DelOptions {
  /**
   * The network's valid attachments. If undefined, every cached attachment is
   * deleted, and the plugins get no list. Plugins release the resources of attachments
   * that the list lacks, so a list that is made from the cache must contain every
   * attachment that an unreadable cache file could describe.
   */
  readonly validAttachments?: readonly AttachmentId[] | undefined;
  /** The cache's files, if the caller has just read them. */
  readonly listing?: CacheListing | undefined;
}

/**
 * Runs DEL for the network's cached attachments that are not valid, then GC of
 * each plugin in order. Collects failures and continues. Unlike the Go library,
 * it reports an unreadable cache, and never passes the runtime's own namespace
 * to a plugin.
 *
 * Source: containernetworking/cni libcni/api.go `GCNetworkList`.
 *
 * @throws The only failure, or an AggregateError of several
 */
export async function collectGarbage(
  tools: Tools,
  list: NetworkConfList,
  options: GcOptions,
): Promise<void> {
  if (list.disableGc) return;
  const failures: unknown[] = [];
  const attempt = attemptInto(failures);
  const { attachments, unreadable } = await attempt(
    () => options.listing ?? tools.cache.readAll(),
    `failed to list cached attachments of network ${JSON.stringify(list.name)}`,
  ) ?? { attachments: [], unreadable: [] };
  for (const attachment of staleOf(attachments, list, options)) {
    await attempt(
      () => delStale(tools, list, attachment, options),
      `failed to delete stale attachment ${attachment.containerId} ${attachment.ifName}`,
    );
  }
  warnOfUnreadable(tools, list, unreadable);
  if (mayHaveVersion(list, COMMAND_SINCE.GC)) {
    failures.push(...await gcPlugins(tools, list, options));
  }
  throwAll(failures, `${failures.length} steps of garbage collection failed`);
}

function staleOf(
  attachments: readonly CachedAttachment[],
  { name }: NetworkConfList,
  { validAttachments = [] }: GcOptions,
): CachedAttachment[] {
  const isValid = listedTest(validAttachments);
  return attachments
    .filter((cached) => cached.network === name && !isValid(cached));
}

/** Names the files of a network that no GC can remove. */
function warnOfUnreadable(
  { log }: Tools,
  { name }: PluginList,
  unreadable: readonly string[],
): void {
  for (const path of unreadable) {
    if (!basename(path).startsWith(`${name}-`)) continue;
    log.warn("Leaving a file of the cache that cannot be read", { path });
  }
}

async function delStale(
  tools: Tools,
  list: NetworkConfList,
  cached: CachedAttachment,
  options: DelOptions,
): Promise<void> {
  const { containerId, netns, ifName, cniArgs: args, capabilityArgs } = cached;
  const conf = { containerId, netns, ifName, args, capabilityArgs };
  const { delFromNetwork } = await import("./del.ts");
  await delFromNetwork(tools, list, dropRecycledNetns(tools, conf), options);
}

/** Options of GC for several plugins. */
export interface GcPluginsOptions extends OperationOptions {
  /** The network's valid attachments; undefined if unknown. */
  readonly validAttachments?: readonly AttachmentId[] | undefined;
}

/**
 * Runs GC of each plugin in order, and continues after failures.
 *
 * Source: containernetworking/cni libcni/api.go `GCNetworkList`.
 *
 * @returns The failures
 */
export async function gcPlugins(
  tools: PluginTools,
  network: PluginList,
  { validAttachments, signal }: GcPluginsOptions,
): Promise<Error[]> {
  const gc = validAttachments && { validAttachments };
  const failures: Error[] = [];
  for (const plugin of network.plugins) {
    const { type } = plugin;
    const problem = findImpossible(type);
    if (isNothingToUndo({ type, problem, isAdded: false }, tools.log)) continue;
    try {
      const stdin = buildRequest(network, plugin, { gc });
      await runPlugin(tools, { command: "GC", type, stdin, signal });
    } catch (cause) {
      failures.push(new Error(`failed to GC plugin ${type}`, { cause }));
    }
  }
  return failures;
}
