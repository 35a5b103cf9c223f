/**
 * `cni status`: checks whether a network is ready for another container.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { NetworkConfList, PluginConf } from "../../libcni/mod.ts";
import { mayHaveVersion } from "../../libcni/operation.ts";
import {
  COMMAND_SINCE,
  CURRENT_VERSION,
  isSpecVersion,
} from "../../cni/version.ts";
import { unfoldChains } from "../node/chain_form.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import { createRuntime, getNetwork, readDirectories } from "../node/network.ts";
import { findMissing, findOwnType } from "../node/plugin_file.ts";
import { typesWithIpam } from "../../cni/config/ipam.ts";

/** Runs STATUS of the plugins that support it, and checks that the other plugins exist. */
export async function status(call: CniCall): Promise<Output> {
  const [network = ""] = call.args;
  const directories = readDirectories(call);
  const list = getNetwork(directories, network);
  const { pluginDirs } = directories;
  refuseMissing(list, pluginDirs);
  const runtime = createRuntime(call, directories);
  const { signal } = call;
  const hasStatus = mayHaveVersion(list, COMMAND_SINCE.STATUS);
  const asked = hasStatus ? list.plugins : await listAskable(list, pluginDirs);
  const cniVersion = hasStatus ? list.cniVersion : CURRENT_VERSION;
  const askable = { ...list, cniVersion, plugins: asked };
  // Plugins would report that they have no STATUS.
  if (hasStatus && !isSpecVersion(cniVersion)) {
    for (const plugin of list.plugins) {
      await runtime.validateNetwork({ ...list, plugin }, { signal });
    }
  }
  await runtime.statusNetworkList(askable, { signal });
  const others = list.plugins.filter((plugin) => !asked.includes(plugin));
  const reason = others.length === 0
    ? undefined
    : `Not queried: ${typesOf(others).join(", ")}; version ` +
      `"${list.cniVersion}" of "${list.name}" has no STATUS`;
  return {
    json: {
      network: list.name,
      ready: reason === undefined ? true : null,
      asked: typesOf(asked),
      ...reason !== undefined && { reason },
    },
    text: "",
    note: reason,
  };
}

function typesOf(plugins: readonly PluginConf[]): string[] {
  return plugins.map(({ type }) => type);
}

/** Lists the types of plugins, the plugins that they run, and their IPAM plugins. */
function listInvolved(plugins: readonly PluginConf[]): string[] {
  return typesWithIpam(unfoldChains(plugins));
}

/** @throws {CniError} 50 If a plugin is missing, so that ADD would fail */
function refuseMissing(
  { name, plugins }: NetworkConfList,
  pluginDirs: readonly string[],
): void {
  const missing = listInvolved(plugins)
    .flatMap((type) => findMissing(type, pluginDirs) ?? []);
  if (missing.length === 0) return;
  throw new CniError(
    ErrorCode.PluginNotAvailable,
    `Cannot attach to "${name}": ${missing.join("; ")}`,
  );
}

/**
 * Lists the plugins that can be asked although the network's version has no
 * STATUS: this project's plugins, if all plugins that they run also belong to
 * this project. For multus, networks have versions of their own.
 */
async function listAskable(
  { plugins }: NetworkConfList,
  pluginDirs: readonly string[],
): Promise<PluginConf[]> {
  const askable: PluginConf[] = [];
  for (const plugin of plugins) {
    const types = listInvolved([plugin]);
    const own = await Promise.all(
      types.map((type) => findOwnType(type, pluginDirs)),
    );
    if (own.every(Boolean) && !own.includes("multus")) askable.push(plugin);
  }
  return askable;
}
