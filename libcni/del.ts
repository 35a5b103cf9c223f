/**
 * DEL: detaching a container from a network.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import {
  type AttachedOptions,
  buildRequest,
  dropRecycledNetns,
  hasVersion,
  keyOf,
  type OperationOptions,
  pluginFailure,
  type PluginTools,
  restoreArgs,
  runPlugin,
  type RuntimeConf,
  type Tools,
} from "./operation.ts";
import {
  asNetwork,
  type Network,
  parseNetworkConf,
  parseNetworkConfList,
  type PluginList,
} from "./conf.ts";
import { throwAll } from "../cni/call/rollback.ts";
import type { Starter } from "../cni/call/context.ts";
import { ListDeletion } from "../cni/call/link_deletion.ts";

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
    return cache.findResult(keyOf(network, conf), network.cniVersion)
      ?.document;
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

/**
 * Returns the input of the ADD that DEL is to undo. If the cache does not have
 * it, returns the input of DEL.
 */
function restoreAttachment(
  { cache, log }: Tools,
  network: Network,
  conf: RuntimeConf,
): { readonly network: Network; readonly conf: RuntimeConf } {
  try {
    const cached = cache.readConfig(keyOf(network, conf));
    if (cached === undefined) return { network, conf };
    return {
      network: parseCachedConfig(cached.config),
      conf: restoreArgs(conf, cached),
    };
  } catch (error) {
    log.warn("Deleting without the cached configuration", {
      network: network.name,
      containerId: conf.containerId,
      ifName: conf.ifName,
      error: describeError(error),
    });
    return { network, conf };
  }
}

/** Parses a list or a bare plugin. To the list parser, a bare plugin is a list without plugins. */
function parseCachedConfig(bytes: Uint8Array): Network {
  const list = parseNetworkConfList(bytes);
  return list.plugins.length > 0 ? list : asNetwork(parseNetworkConf(bytes));
}

/** Options of DEL for several plugins. */
export interface DelPluginsOptions extends AttachedOptions {
  /** Whether to continue after a plugin that fails or is missing. */
  readonly continueOnDelErrors?: boolean | undefined;
}

/**
 * Runs DEL of each plugin, last to first. Links that the plugins left for later
 * are deleted at the end in any case.
 *
 * Source: containernetworking/cni libcni/api.go `DelNetworkList`.
 *
 * @throws {PluginFailure} If a plugin fails
 */
export async function delPlugins(
  tools: PluginTools,
  network: PluginList,
  conf: RuntimeConf,
  { prevResult, continueOnDelErrors = false, signal }: DelPluginsOptions,
): Promise<void> {
  const { capabilityArgs } = conf;
  const linkDeletion = new ListDeletion(tools.context.linkDeletion);
  const failures: Error[] = [];
  const finish = async (): Promise<void> => {
    await linkDeletion.finish().catch((error) => failures.push(error));
  };
  const context = {
    ...tools.context,
    linkDeletion,
    onProcess: async (): Promise<Starter | void> => {
      await finish();
      return await tools.context.onProcess?.();
    },
  };
  for (const plugin of network.plugins.toReversed()) {
    try {
      await runPlugin({ ...tools, context }, {
        command: "DEL",
        type: plugin.type,
        stdin: buildRequest(network, plugin, { prevResult, capabilityArgs }),
        conf,
        signal,
      });
    } catch (error) {
      failures.push(pluginFailure(plugin, "delete", error));
      if (!continueOnDelErrors) break;
    }
  }
  await finish();
  throwAll(failures, `${failures.length} plugins failed (delete)`);
}
