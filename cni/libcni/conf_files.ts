/**
 * Network configurations in a folder, such as /etc/cni/net.d.
 *
 * A network's name becomes part of paths, so one that is not valid is refused
 * here already: the Go library leaves that to ADD, and reads a folder first.
 *
 * Source: containernetworking/cni libcni/conf.go.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { checkNetworkName } from "../args.ts";
import { CniError, ErrorCode, toCniError } from "../error.ts";
import {
  appendPlugins,
  type NetworkConf,
  type NetworkConfList,
  parseNetworkConf,
  parseNetworkConfList,
  type PluginConf,
  toNetworkConfList,
} from "./conf.ts";
import { parseDocument } from "./conf_document.ts";

/** No file of a folder is a network configuration. */
export class NoConfigsFoundError extends CniError {
  /** The folder, as it was given. */
  readonly folder: string;

  /** Makes the error of a folder. */
  constructor(folder: string) {
    super(ErrorCode.Internal, `no net configurations found in ${folder}`);
    this.folder = folder;
  }
}

/** A folder has network configurations, but none of the network. */
export class NetworkNotFoundError extends CniError {
  /** The folder, as it was given. */
  readonly folder: string;
  /** The network that was looked for. */
  readonly network: string;

  /** Makes the error of a network and a folder. */
  constructor(folder: string, network: string) {
    super(
      ErrorCode.Internal,
      `no net configuration with name "${network}" in ${folder}`,
    );
    this.folder = folder;
    this.network = network;
  }
}

const LISTS = [".conflist"], BARE_PLUGINS = [".conf", ".json"];

/**
 * Lists the files of a folder by their names' ends, in alphabetical order.
 *
 * What is in folders of the folder is left out; a link is what it is named.
 *
 * @param extensions Such as `.conflist`, to the letter
 * @returns Paths that begin with the folder; none if there is no such folder
 * @throws {CniError} 5 If the folder cannot be read
 */
export function listConfFiles(
  folder: string,
  extensions: readonly string[],
): string[] {
  return listFolder(folder)
    .filter(({ isDirectory, name }) =>
      // Of a hidden file such as ".conf" the whole name is its extension.
      !isDirectory && extensions.includes(name.slice(name.lastIndexOf(".")))
    )
    .map(({ name }) => join(folder, name)).sort();
}

function listFolder(folder: string): Deno.DirEntry[] {
  try {
    return [...Deno.readDirSync(folder)];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw unreadable(folder, error);
  }
}

function unreadable(path: string, cause: unknown): CniError {
  return new CniError(ErrorCode.IoFailure, `error reading ${path}`, { cause });
}

/**
 * Reads the configuration of a bare plugin.
 *
 * @throws {CniError} 5 If the file cannot be read, 6 or 7 if it is malformed
 */
export function readNetworkConf(path: string): NetworkConf {
  return parseFile(path, parseNetworkConf);
}

/**
 * Reads the configuration of a network: the plugins of the file, and then those
 * that have files of their own in the folder beside it, which has the network's
 * name, in the order of their names.
 *
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if there is no plugin at all or the network's name is not valid
 */
export function readNetworkConfList(path: string): NetworkConfList {
  return addPluginFiles(parseFile(path, parseNetworkConfList), path);
}

function addPluginFiles(list: NetworkConfList, path: string): NetworkConfList {
  checkNameIn(path, list.name);
  const folder = join(dirname(path), list.name);
  const complete = list.loadOnlyInlinedPlugins
    ? list
    : appendPlugins(list, readPluginFiles(folder));
  if (complete.plugins.length > 0) return complete;
  const isBare = parseDocument("configuration list", list.bytes)["type"] !==
    undefined;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "no plugin configs found",
    {
      details:
        `neither "plugins" in "${path}" nor files *.conf in "${folder}"` +
        (isBare ? "; a bare plugin belongs in a file *.conf" : ""),
    },
  );
}

function readPluginFiles(folder: string): PluginConf[] {
  return listConfFiles(folder, [".conf"])
    .map((path) => readNetworkConf(path).plugin);
}

function parseFile<T>(path: string, parse: (bytes: Uint8Array) => T): T {
  const bytes = readConfFile(path);
  return inFile(path, () => parse(bytes));
}

/**
 * Reads a configuration as it is.
 *
 * @throws {CniError} 5 If it cannot be read
 */
export function readConfFile(path: string): Uint8Array {
  try {
    return Deno.readFileSync(path);
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** The name becomes that of a folder: with ".." in it, of one anywhere. */
function checkNameIn(path: string, name: string): void {
  inFile(path, () => checkNetworkName(name));
}

/** Has an error tell which file it is about. */
function inFile<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const { code, message, details } = toCniError(error);
    const where = details === "" ? `in "${path}"` : `in "${path}": ${details}`;
    throw new CniError(code, message, { details: where });
  }
}

/**
 * Finds a network among the bare plugins of a folder. The files are read in
 * alphabetical order, and a malformed one ends the search.
 *
 * @throws {NoConfigsFoundError} If there are no files `*.conf` or `*.json`
 * @throws {NetworkNotFoundError} If none of them is the network's
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if the name is not valid
 */
export function findNetworkConf(folder: string, name: string): NetworkConf {
  const paths = listConfFiles(folder, BARE_PLUGINS);
  if (paths.length === 0) throw new NoConfigsFoundError(folder);
  for (const path of paths) {
    const conf = readNetworkConf(path);
    if (conf.name !== name) continue;
    checkNameIn(path, name);
    return conf;
  }
  throw new NetworkNotFoundError(folder, name);
}

/**
 * Finds a network in a folder: first among the lists, then among the bare
 * plugins. The files are read in alphabetical order, and a malformed one ends
 * the search. Other networks' names are not checked, and their folders not read.
 *
 * @throws {NoConfigsFoundError} If there is no configuration at all
 * @throws {NetworkNotFoundError} If none is the network's
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if the name is not valid
 */
export function findNetworkConfList(
  folder: string,
  name: string,
): NetworkConfList {
  const paths = listConfFiles(folder, LISTS);
  for (const path of paths) {
    const list = parseFile(path, parseNetworkConfList);
    if (list.name === name) return addPluginFiles(list, path);
  }
  try {
    return toNetworkConfList(findNetworkConf(folder, name));
  } catch (error) {
    if (paths.length === 0 || !(error instanceof NoConfigsFoundError)) {
      throw error;
    }
    throw new NetworkNotFoundError(folder, name);
  }
}

/** A network, and the file that it was read from. */
export interface FoundNetwork {
  /** The network. */
  readonly list: NetworkConfList;
  /** The file. */
  readonly path: string;
}

/**
 * Reads the networks of a folder, one after the other as they are asked for, in
 * alphabetical order of all files, lists and bare plugins.
 *
 * @param onSkipped Told of each file that cannot be used, and why
 * @throws {CniError} 5 If the folder cannot be read
 */
export function* readNetworks(
  folder: string,
  onSkipped: (path: string, error: CniError) => void = () => {},
): Generator<FoundNetwork, undefined> {
  for (const path of listConfFiles(folder, [...LISTS, ...BARE_PLUGINS])) {
    let list: NetworkConfList;
    try {
      list = readEither(path);
    } catch (error) {
      onSkipped(path, toCniError(error));
      continue;
    }
    yield { list, path };
  }
}

/**
 * Finds the network that a node's containers are attached to: the first of
 * {@linkcode readNetworks}.
 *
 * Source: what kubelet, CRI-O's ocicni and containerd have in common.
 *
 * @param onSkipped Told of each file before it that cannot be used, and why
 * @returns Undefined if there is none
 * @throws {CniError} 5 If the folder cannot be read
 */
export function findDefaultNetwork(
  folder: string,
  onSkipped?: (path: string, error: CniError) => void,
): FoundNetwork | undefined {
  return readNetworks(folder, onSkipped).next().value;
}

function readEither(path: string): NetworkConfList {
  if (path.endsWith(".conflist")) return readNetworkConfList(path);
  const conf = readNetworkConf(path);
  checkNameIn(path, conf.name);
  return toNetworkConfList(conf);
}
