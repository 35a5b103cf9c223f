/**
 * ADD of a network's plugins, each with the previous plugin's result.
 *
 * @module
 */

import {
  checkContainerId,
  checkInterfaceName,
  checkNetworkName,
} from "../cni/call/args.ts";
import { CniError, ErrorCode } from "../base/error.ts";
import { readPluginResult } from "../cni/invoke/plugin_result.ts";
import type { JsonObject } from "../base/json/json.ts";
import { type AttachmentResult, toPrevResult } from "./attachment_result.ts";
import type { PluginConf } from "./conf.ts";
import {
  type OperationOptions,
  pathOf,
  pluginFailure,
  type PluginList,
  runPlugin,
} from "./operation.ts";
import { buildRequest } from "./request.ts";
import type { RuntimeConf } from "./runtime_conf.ts";
import type { PluginTools } from "./tools.ts";

/** The starting point of an ADD of several plugins. */
export interface AddPluginsOptions extends OperationOptions {
  /** The prevResult of the first plugin; undefined if no plugin ran before it. */
  readonly prevResult?: JsonObject | undefined;
}

/**
 * Runs ADD of each plugin in order. After a failure the caller must run DEL.
 *
 * Source: containernetworking/cni libcni/api.go `AddNetworkList`.
 *
 * @returns The last plugin's result
 * @throws {PluginFailure} If a plugin fails
 * @throws {CniError} 7 If the list has no plugins
 */
export async function addPlugins(
  tools: PluginTools,
  network: PluginList,
  conf: RuntimeConf,
  { prevResult: first, signal }: AddPluginsOptions,
): Promise<AttachmentResult> {
  let last: AttachmentResult | undefined;
  for (const plugin of network.plugins) {
    const prevResult = last === undefined
      ? first
      : toPrevResult(last, network.cniVersion, tools.log);
    const add = { network, plugin, conf, prevResult };
    try {
      last = await addPlugin(tools, add, { signal });
    } catch (error) {
      throw pluginFailure(plugin, "add", error);
    }
  }
  if (last === undefined) throw noPlugins(network);
  return last;
}

function noPlugins({ name }: PluginList): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot attach to network ${JSON.stringify(name)}: it has no plugins`,
  );
}

/** One plugin's step of an ADD. */
interface PluginAdd {
  readonly network: PluginList;
  readonly plugin: PluginConf;
  readonly conf: RuntimeConf;
  readonly prevResult: JsonObject | undefined;
}

async function addPlugin(
  tools: PluginTools,
  { network, plugin, conf, prevResult }: PluginAdd,
  { signal }: OperationOptions,
): Promise<AttachmentResult> {
  const { capabilityArgs } = conf;
  const { type } = plugin;
  let stdin: Uint8Array;
  try {
    checkNames(network, conf);
    stdin = buildRequest(network, plugin, { prevResult, capabilityArgs });
  } catch (error) {
    // The Go library reports a missing plugin before a malformed name.
    pathOf(type, tools);
    throw error;
  }
  const run = { command: "ADD", type, stdin, conf, signal } as const;
  const output = await runPlugin(tools, run);
  return readPluginResult(output, network.cniVersion);
}

/**
 * Checks the names that an ADD uses.
 *
 * @throws {CniError} 3, 4 or 7 If a name is missing or malformed
 */
export function checkNames(
  network: Pick<PluginList, "name">,
  conf: RuntimeConf,
): void {
  checkContainerId(conf.containerId);
  checkNetworkName(network.name);
  checkInterfaceName(conf.ifName);
}
