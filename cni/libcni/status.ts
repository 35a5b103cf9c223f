/**
 * STATUS: whether a network's plugins could serve ADD.
 *
 * @module
 */

import { COMMAND_SINCE } from "../version.ts";
import {
  mayHaveVersion,
  type OperationOptions,
  type PluginList,
  runPlugin,
} from "./operation.ts";
import { buildRequest } from "./request.ts";
import type { PluginTools } from "./tools.ts";

/**
 * Runs STATUS of each plugin in order. A configuration before 1.1.0 has no
 * STATUS, which says nothing against it.
 *
 * Source: containernetworking/cni libcni/api.go `GetStatusNetworkList`.
 *
 * @throws {CniError} What the first plugin throws that is not ready: 50, or 51
 *   if containers that are attached already may suffer
 */
export async function checkStatus(
  tools: PluginTools,
  network: PluginList,
  { signal }: OperationOptions,
): Promise<void> {
  if (!mayHaveVersion(network, COMMAND_SINCE.STATUS)) return;
  for (const plugin of network.plugins) {
    await runPlugin(tools, {
      command: "STATUS",
      type: plugin.type,
      stdin: buildRequest(network, plugin, {}),
      signal,
    });
  }
}
