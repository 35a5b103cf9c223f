/**
 * Mistakes in a chain's configuration that do not stop it from working: keys at a
 * level where no runtime or plugin reads them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import {
  listCapabilities,
  type PluginConf,
  type PluginList,
} from "../../libcni/conf.ts";
import type { Call } from "../../cni/plugin.ts";
import type { ChainConfig } from "./schema.ts";

/** Keys of plugins that chain itself does not support. */
const PLUGIN_KEYS = ["ipam", "dns", "ipMasq"] as const;

/** Lists mistakes, a sentence each. */
export function listMistakes(
  config: ChainConfig,
  plugins: readonly PluginConf[],
): string[] {
  const { capabilities = {} } = config;
  const undeclared = listCapabilities(plugins)
    .filter((name) => capabilities[name] !== true)
    .map((name) =>
      `capabilities of the chain lack "${name}", which one of its plugins ` +
      "declares: the runtime does not pass it on"
    );
  const misplaced = PLUGIN_KEYS
    .filter((key) => config[key] !== undefined)
    .map((key) =>
      `"${key}" of the chain has no effect: it belongs in a plugin`
    );
  return [...undeclared, ...misplaced];
}

/**
 * Refuses mistakes. STATUS reports them before they affect a container.
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
    `Cannot fully serve network "${network}": ${mistakes.join("; ")}`,
  );
}
