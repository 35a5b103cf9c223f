/**
 * Networks in files of the node, and the auxiliary chain: plugins that run for
 * every pod after all its networks, with the master's configuration unchanged.
 *
 * ```
 * clusterNetwork /etc/cni/net.d/10-master.conf, auxiliaryCNIChainName vendor:
 *   /etc/cni/net.d/vendor/*.conf  ──▶  { "type": "passthru" }, each of them
 * ```
 *
 * Source: network-attachment-definition-client pkg/utils/net-attach-def.go
 * `GetCNIConfigFromFile`; multus-cni pkg/k8sclient/k8sclient.go `getNetDelegate`.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { checkNetworkName } from "../../../cni/call/args.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../../base/error.ts";
import {
  appendPlugins,
  type NetworkConf,
  type NetworkConfList,
  parseNetworkConfList,
} from "../../../libcni/conf.ts";
import {
  listConfFiles,
  readConfFile,
  readNetworkConf,
  readNetworkConfList,
} from "../../../libcni/conf_files.ts";
import { encodeJson } from "../../../base/json/json_bytes.ts";
import type { Log } from "../../../base/log/log.ts";
import { type MultusConfig, nodePath } from "../model/config.ts";
import {
  type Delegate,
  isOwnConf,
  refuseSelf,
  toDelegate,
} from "../model/delegate.ts";

const EXTENSIONS = [".conf", ".json", ".conflist"];

/**
 * Finds a network by its CNI name. Files are read in alphabetical order. A
 * malformed file ends the search, because it may be the file in question.
 *
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if the network does not exist
 */
export function findNetworkFile(
  directory: string,
  name: string,
): NetworkConfList | NetworkConf {
  for (const path of listFiles(directory)) {
    if (glance(path).name === name) return readNetworkFile(path);
  }
  throw notFound(
    `no network available in the name ${name} in cni dir ${directory}`,
  );
}

/**
 * Finds the first network of a directory, in alphabetical order of its files. Files
 * that configure multus itself, which may share the directory, are skipped.
 *
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   without a network
 */
export function findFirstNetworkFile(
  directory: string,
): NetworkConfList | NetworkConf {
  const path = listFiles(directory).find((path) => !isOwnConf(glance(path)));
  if (path !== undefined) return readNetworkFile(path);
  throw notFound(
    `No networks found in ${directory} except networks of multus itself`,
  );
}

function listFiles(directory: string): string[] {
  const paths = listConfFiles(directory, EXTENSIONS);
  if (paths.length > 0) return paths;
  throw notFound(`No networks found in ${directory}`);
}

function notFound(message: string): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, message);
}

/**
 * Reads a network: a list with the plugins of the files next to it, or a single
 * plugin. The file's extension distinguishes them.
 *
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed
 */
export function readNetworkFile(path: string): NetworkConfList | NetworkConf {
  return readAs(path, readNetworkConfList);
}

/** Reads a network without the files next to it, to look at its name and types. */
function glance(path: string): NetworkConfList | NetworkConf {
  return readAs(path, (path) => parseNetworkConfList(readConfFile(path)));
}

function readAs(
  path: string,
  readList: (path: string) => NetworkConfList,
): NetworkConfList | NetworkConf {
  const isList = path.endsWith(".conflist");
  try {
    return isList ? readList(path) : readNetworkConf(path);
  } catch (error) {
    const { code, message, details } = toCniError(error);
    const kind = isList ? "conflist" : "config";
    const text = `Error loading CNI ${kind} file ${path}: ${message}`;
    throw new CniError(code, text, { details });
  }
}

/** Settings of the auxiliary chain. */
export interface ChainContext {
  readonly config: Pick<MultusConfig, "clusterNetwork">;
  /** The chain's version. */
  readonly cniVersion: string;
  /** Receives the reason why the chain is left out. */
  readonly log: Pick<Log, "warn">;
}

/**
 * Loads the auxiliary chain. A malformed chain is left out, with a warning: its owner is
 * not the owner of the master network, and must not stop pods from starting.
 *
 * @param name Name of the network, and of the directory next to clusterNetwork
 * @returns Undefined without plugins, or if one is malformed
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
    const directory = join(dirname(nodePath(clusterNetwork)), name);
    return readChain(directory, name, cniVersion);
  } catch (error) {
    const reason = describeError(error);
    log.warn("Skipped the auxiliary CNI chain", { name, error: reason });
    return undefined;
  }
}

function readChain(
  directory: string,
  name: string,
  cniVersion: string,
): Delegate | undefined {
  const added = listConfFiles(directory, [".conf"])
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
