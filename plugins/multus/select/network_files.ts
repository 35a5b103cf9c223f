/**
 * Networks in files of the node.
 *
 * Source: network-attachment-definition-client pkg/utils/net-attach-def.go
 * `GetCNIConfigFromFile`; multus-cni pkg/k8sclient/k8sclient.go `getNetDelegate`.
 *
 * @module
 */

import { CniError, ErrorCode, toCniError } from "../../../cni/error.ts";
import {
  type NetworkConf,
  type NetworkConfList,
  parseNetworkConfList,
} from "../../../cni/libcni/conf.ts";
import {
  listConfFiles,
  readConfFile,
  readNetworkConf,
  readNetworkConfList,
} from "../../../cni/libcni/conf_files.ts";
import { isOwnConf } from "../model/self_guard.ts";

const EXTENSIONS = [".conf", ".json", ".conflist"];

/**
 * Finds a network by its CNI name. Files are read in alphabetical order. A
 * malformed file ends the search, because it may be the file in question.
 *
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if there is no such network
 */
export function findNetworkFile(
  folder: string,
  name: string,
): NetworkConfList | NetworkConf {
  for (const path of listFiles(folder)) {
    if (glance(path).name === name) return readNetworkFile(path);
  }
  throw notFound(
    `no network available in the name ${name} in cni dir ${folder}`,
  );
}

/**
 * Finds the first network of a folder, in alphabetical order of its files. Files
 * that configure multus itself, which may share the folder, are skipped.
 *
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if there is no network
 */
export function findFirstNetworkFile(
  folder: string,
): NetworkConfList | NetworkConf {
  const path = listFiles(folder).find((path) => !isOwnConf(glance(path)));
  if (path !== undefined) return readNetworkFile(path);
  throw notFound(`No networks found in ${folder} but those of multus itself`);
}

function listFiles(folder: string): string[] {
  const paths = listConfFiles(folder, EXTENSIONS);
  if (paths.length > 0) return paths;
  throw notFound(`No networks found in ${folder}`);
}

function notFound(message: string): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, message);
}

/**
 * Reads a network: a list with the plugins of the files next to it, or a single
 * plugin. The file's extension tells them apart.
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
