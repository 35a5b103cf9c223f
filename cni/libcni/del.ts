/**
 * DEL: detaching a container from a network.
 *
 * @module
 */

import { describeError } from "../error.ts";
import type { JsonObject } from "../json.ts";
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

/** The first version of a configuration whose DEL gets the result of ADD. */
const PREV_RESULT_SINCE = "0.4.0";

/** How far DEL goes. */
export interface DelOptions extends OperationOptions {
  /**
   * Goes on after a plugin that fails or is missing, and throws all failures in
   * the end. The Go library stops at the first, and what the plugins before it
   * in the list have made remains.
   */
  readonly continueOnDelErrors?: boolean | undefined;
  /**
   * Uses the configuration and the arguments that ADD was given, as the cache
   * has them, rather than those of this call, if there are any: the
   * configuration may have changed since, and who has lost the capabilities'
   * arguments cannot have what was made of them removed. A namespace that is
   * the runtime's own by now is left out.
   */
  readonly useCachedConfig?: boolean | undefined;
}

/**
 * Runs DEL of each plugin, last to first, each with the cached result of ADD,
 * and forgets the attachment. After a failure it is still cached, for another
 * try.
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
 * Finds the cached result. One that cannot be read, as after a crash, is as
 * good as none, or DEL would fail for ever.
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

/** What cannot be removed from the cache is the business of GC. */
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
