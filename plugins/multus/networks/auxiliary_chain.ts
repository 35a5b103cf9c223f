/**
 * The auxiliary chain: plugins that run for every pod, after all its networks,
 * without anybody editing the master's configuration.
 *
 * ```
 * clusterNetwork /etc/cni/net.d/10-master.conf, auxiliaryCNIChainName vendor:
 *   /etc/cni/net.d/vendor/*.conf  ──▶  { "type": "passthru" }, each of them
 * ```
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { checkNetworkName } from "../../../cni/args.ts";
import { CniError, describeError, ErrorCode } from "../../../cni/error.ts";
import {
  appendPlugins,
  parseNetworkConfList,
} from "../../../cni/libcni/conf.ts";
import {
  listConfFiles,
  readNetworkConf,
} from "../../../cni/libcni/conf_files.ts";
import { encodeJson } from "../../../cni/libcni/json_bytes.ts";
import type { Log } from "../../../cni/log.ts";
import { type MultusConfig, nodePath } from "../config.ts";
import { type Delegate, toDelegate } from "./delegate.ts";
import { refuseSelf } from "./self_guard.ts";

/** What the chain is made with. */
export interface ChainContext {
  readonly config: Pick<MultusConfig, "clusterNetwork">;
  /** The chain's version. */
  readonly cniVersion: string;
  /** Told why there is no chain. */
  readonly log: Pick<Log, "warn">;
}

/**
 * Loads the chain. One that cannot be loaded is left out: it is in other hands
 * than the network that pods cannot do without.
 *
 * @param name Of the network, and of the folder beside clusterNetwork
 * @returns Undefined if there are no plugins, or one is malformed
 * @throws {CniError} 7 If clusterNetwork is no path, so that there is no folder
 */
export function loadAuxiliaryChain(
  name: string,
  { config: { clusterNetwork = "" }, cniVersion, log }: ChainContext,
): Delegate | undefined {
  if (!clusterNetwork.includes("/")) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `Cannot find auxiliary CNI chain "${name}": clusterNetwork "${clusterNetwork}" is no path`,
    );
  }
  try {
    checkNetworkName(name);
    const folder = join(dirname(nodePath(clusterNetwork)), name);
    return readChain(folder, name, cniVersion);
  } catch (error) {
    const reason = describeError(error);
    log.warn("The auxiliary CNI chain is left out", { name, error: reason });
    return undefined;
  }
}

function readChain(
  folder: string,
  name: string,
  cniVersion: string,
): Delegate | undefined {
  const added = listConfFiles(folder, [".conf"])
    .map((path) => readNetworkConf(path).plugin);
  if (added.length === 0) return undefined;
  const bytes = encodeJson({
    cniVersion,
    name,
    // Plugins that expect to be chained find a result before them.
    plugins: [{ type: "passthru" }],
  });
  const chain = toDelegate(appendPlugins(parseNetworkConfList(bytes), added));
  refuseSelf(chain);
  return chain;
}
