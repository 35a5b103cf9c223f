/**
 * DEL: detaching a container from a network.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import { findCachedResult } from "./attachment_result.ts";
import { restoreAttachment } from "./cached_config.ts";
import { delPlugins } from "./each_plugin.ts";
import {
  hasVersion,
  type Network,
  type OperationOptions,
} from "./operation.ts";
import { dropRecycledNetns } from "./recycled_netns.ts";
import { keyOf, type RuntimeConf } from "./runtime_conf.ts";
import type { Tools } from "./tools.ts";

/** The first configuration version in which DEL gets the result of ADD. */
const PREV_RESULT_SINCE = "0.4.0";

/** Options of DEL. */
export interface DelOptions extends OperationOptions {
  /**
   * Whether to continue after a plugin that fails or is missing, and throw all
   * failures at the end. The Go library stops at the first failure, and the
   * work of the plugins before it in the list remains.
   */
  readonly continueOnDelErrors?: boolean | undefined;
  /**
   * Whether to use the configuration and arguments of ADD from the cache, if
   * present, instead of this call's. The configuration may have changed since,
   * and without the capability arguments, what was made from them cannot be
   * removed. A namespace that is now the runtime's own is left out.
   */
  readonly useCachedConfig?: boolean | undefined;
}

/**
 * Runs DEL of each plugin, last to first, each with the cached result of ADD,
 * and removes the attachment from the cache. After a failure it stays cached
 * for the next attempt.
 *
 * Source: containernetworking/cni libcni/api.go `DelNetworkList`.
 *
 * @throws {PluginFailure} If a plugin fails
 * @throws {CniError} 6 If the configuration's version cannot be parsed
 */
export async function delFromNetwork(
  tools: Tools,
  network: Network,
  conf: RuntimeConf,
  options: DelOptions,
): Promise<void> {
  const added = options.useCachedConfig
    ? restoreAttachment(tools, network, dropRecycledNetns(tools, conf))
    : { network, conf };
  const prevResult = hasVersion(added.network, PREV_RESULT_SINCE)
    ? tryCachedResult(tools, added.network, added.conf)
    : undefined;
  await delPlugins(tools, added.network, added.conf, {
    ...options,
    prevResult,
  });
  forget(tools, network, conf);
}

/**
 * Finds the cached result. An unreadable one, as after a crash, counts as
 * absent; otherwise DEL would fail forever.
 */
function tryCachedResult(
  { cache, log }: Tools,
  network: Network,
  conf: RuntimeConf,
): JsonObject | undefined {
  try {
    return findCachedResult(cache, network, conf)?.document;
  } catch (error) {
    log.warn("Deleting without the cached result", {
      network: network.name,
      containerId: conf.containerId,
      ifName: conf.ifName,
      error: describeError(error),
    });
    return undefined;
  }
}

/** Removes the attachment from the cache. A failure is left to GC. */
function forget(
  { cache, log }: Tools,
  network: Network,
  conf: RuntimeConf,
): void {
  try {
    cache.remove(keyOf(network, conf));
  } catch (error) {
    log.warn("Cannot remove an attachment from the cache", {
      network: network.name,
      containerId: conf.containerId,
      ifName: conf.ifName,
      error: describeError(error),
    });
  }
}
