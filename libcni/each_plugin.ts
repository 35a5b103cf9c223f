/**
 * CHECK, DEL and GC of a network's plugins in sequence: the part of a runtime
 * that does not use the cache.
 *
 * @module
 */

import type { JsonObject } from "../base/json/json.ts";
import { throwAll } from "../cni/call/rollback.ts";
import type { Starter } from "../cni/call/context.ts";
import { ListDeletion } from "../cni/call/link_deletion.ts";
import type { ValidAttachment } from "../cni/config/types.ts";
import {
  type OperationOptions,
  pluginFailure,
  type PluginList,
  runPlugin,
} from "./operation.ts";
import { buildRequest } from "./request.ts";
import type { RuntimeConf } from "./runtime_conf.ts";
import type { PluginTools } from "./tools.ts";

/** The input of operations on an existing attachment. */
export interface AttachedOptions extends OperationOptions {
  /** The result of the whole list's ADD, if known. */
  readonly prevResult?: JsonObject | undefined;
}

/**
 * Runs CHECK of each plugin in order.
 *
 * Source: containernetworking/cni libcni/api.go `CheckNetworkList`.
 *
 * @throws {CniError} The error of the first plugin that finds a difference
 */
export async function checkPlugins(
  tools: PluginTools,
  network: PluginList,
  conf: RuntimeConf,
  { prevResult, signal }: AttachedOptions,
): Promise<void> {
  const { capabilityArgs } = conf;
  for (const plugin of network.plugins) {
    await runPlugin(tools, {
      command: "CHECK",
      type: plugin.type,
      stdin: buildRequest(network, plugin, { prevResult, capabilityArgs }),
      conf,
      signal,
    });
  }
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

/** Options of GC for several plugins. */
export interface GcPluginsOptions extends OperationOptions {
  /** The network's valid attachments; undefined if unknown. */
  readonly validAttachments?: readonly ValidAttachment[] | undefined;
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
    try {
      const stdin = buildRequest(network, plugin, { gc });
      await runPlugin(tools, { command: "GC", type, stdin, signal });
    } catch (cause) {
      failures.push(new Error(`failed to GC plugin ${type}`, { cause }));
    }
  }
  return failures;
}
