/**
 * CHECK: whether an attachment is as ADD left it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import { COMMAND_SINCE } from "../cni/version.ts";
import {
  type AttachedOptions,
  buildRequest,
  hasVersion,
  keyOf,
  type OperationOptions,
  type PluginTools,
  runPlugin,
  type RuntimeConf,
  type Tools,
} from "./operation.ts";
import type { Network, PluginList } from "./conf.ts";

/** The configuration's version has no CHECK, so nothing was checked. */
export class CheckNotSupportedError extends CniError {}

/**
 * Runs CHECK of each plugin in order, each with the cached result of ADD.
 *
 * Source: containernetworking/cni libcni/api.go `CheckNetworkList`.
 *
 * @throws {CheckNotSupportedError} 1 If the configuration is older than 0.4.0
 * @throws {CniError} The error of the first plugin that finds a difference; 6
 *   if the configuration's version cannot be parsed
 * @throws {Error} If the cached result cannot be used
 */
export async function checkNetwork(
  tools: Tools,
  network: Network & { readonly disableCheck?: boolean },
  conf: RuntimeConf,
  { signal }: OperationOptions,
): Promise<void> {
  if (!hasVersion(network, COMMAND_SINCE.CHECK)) throw notSupported(network);
  if (network.disableCheck) return;
  const prevResult = getCachedResult(tools, network, conf);
  await checkPlugins(tools, network, conf, { prevResult, signal });
}

function notSupported({ cniVersion }: Network): CheckNotSupportedError {
  const version = JSON.stringify(cniVersion);
  return new CheckNotSupportedError(
    ErrorCode.IncompatibleVersion,
    `configuration version ${version} does not support the CHECK command`,
  );
}

function getCachedResult(
  { cache }: Tools,
  network: Network,
  conf: RuntimeConf,
): JsonObject | undefined {
  try {
    return cache.findResult(keyOf(network, conf), network.cniVersion)
      ?.document;
  } catch (cause) {
    const name = JSON.stringify(network.name);
    throw new Error(`failed to get network ${name} cached result`, { cause });
  }
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
