/**
 * What is wrong with a chain's configuration though it works after a fashion:
 * keys that a runtime or a plugin does not see where they are.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import { listCapabilities, type PluginConf } from "../../cni/libcni/conf.ts";
import type { PluginList } from "../../cni/libcni/operation.ts";
import type { Call } from "../../cni/plugin.ts";
import type { ChainConfig } from "./config.ts";

/** Keys that mean something to plugins, and are not the chain's. */
const PLUGIN_KEYS = ["ipam", "dns", "ipMasq"] as const;

/** Lists mistakes, each in a sentence. */
export function listMistakes(
  config: ChainConfig,
  plugins: readonly PluginConf[],
): string[] {
  const { capabilities = {} } = config;
  const undeclared = listCapabilities(plugins)
    .filter((name) => capabilities[name] !== true)
    .map((name) =>
      `capabilities of the chain lack "${name}", which a plugin of it ` +
      "declares: the runtime does not pass it on"
    );
  const misplaced = PLUGIN_KEYS
    .filter((key) => config[key] !== undefined)
    .map((key) => `"${key}" of the chain has no effect: it is for a plugin`);
  return [...undeclared, ...misplaced];
}

/**
 * Refuses mistakes: STATUS shows them before a container comes to harm.
 *
 * @throws {CniError} 7 if there are any
 */
export function refuseMistakes(
  { config, network }: Pick<Call<ChainConfig>, "config" | "network">,
  { plugins }: PluginList,
): void {
  const mistakes = listMistakes(config, plugins);
  if (mistakes.length === 0) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot serve network "${network}" in full: ${mistakes.join("; ")}`,
  );
}
