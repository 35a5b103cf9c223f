/**
 * STATUS: whether a network's plugins are ready for ADD.
 *
 * @module
 */

import { COMMAND_SINCE } from "../cni/version.ts";
import {
  buildRequest,
  mayHaveVersion,
  type OperationOptions,
  type PluginTools,
  runPlugin,
} from "./operation.ts";
import type { PluginList } from "./conf.ts";

/**
 * Runs STATUS of each plugin in order. A configuration older than 1.1.0 has no
 * STATUS and counts as ready.
 *
 * Source: containernetworking/cni libcni/api.go `GetStatusNetworkList`.
 *
 * @throws {CniError} The error of the first plugin that is not ready: 50, or 51
 *   if running containers may be affected
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
