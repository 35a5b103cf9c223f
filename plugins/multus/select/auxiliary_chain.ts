/**
 * The auxiliary chain: plugins that run for every pod after all its networks,
 * with the master's configuration unchanged.
 *
 * ```
 * clusterNetwork /etc/cni/net.d/10-master.conf, auxiliaryCNIChainName vendor:
 *   /etc/cni/net.d/vendor/*.conf  ──▶  { "type": "passthru" }, each of them
 * ```
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { checkNetworkName } from "../../../cni/call/args.ts";
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
import type { Log } from "../../../cni/log/log.ts";
import { type MultusConfig, nodePath } from "../model/config.ts";
import { type Delegate, toDelegate } from "../model/delegate.ts";
import { refuseSelf } from "../model/self_guard.ts";

/** Settings of the chain. */
export interface ChainContext {
  readonly config: Pick<MultusConfig, "clusterNetwork">;
  /** The chain's version. */
  readonly cniVersion: string;
  /** Receives the reason why the chain is left out. */
  readonly log: Pick<Log, "warn">;
}

/**
 * Loads the chain. A malformed chain is left out, with a warning: its owner is
 * not the owner of the master network, and must not stop pods from starting.
 *
 * @param name Name of the network, and of the folder next to clusterNetwork
 * @returns Undefined if there are no plugins, or one is malformed
 * @throws {CniError} 7 If clusterNetwork is not a path
 */
export function loadAuxiliaryChain(
  name: string,
  { config: { clusterNetwork = "" }, cniVersion, log }: ChainContext,
): Delegate | undefined {
  if (!clusterNetwork.includes("/")) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `Cannot find auxiliary CNI chain "${name}": clusterNetwork "${clusterNetwork}" is not a path`,
    );
  }
  try {
    checkNetworkName(name);
    const folder = join(dirname(nodePath(clusterNetwork)), name);
    return readChain(folder, name, cniVersion);
  } catch (error) {
    const reason = describeError(error);
    log.warn("Skipped the auxiliary CNI chain", { name, error: reason });
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
    // Chained plugins expect a previous result.
    plugins: [{ type: "passthru" }],
  });
  const chain = toDelegate(appendPlugins(parseNetworkConfList(bytes), added));
  refuseSelf(chain);
  return chain;
}
