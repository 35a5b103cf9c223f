/**
 * Network configurations in a directory, such as /etc/cni/net.d.
 *
 * A network's name becomes part of paths, so an invalid name is refused here.
 * The Go library reads a directory of that name first and leaves the check to
 * ADD.
 *
 * Source: containernetworking/cni libcni/conf.go.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { checkNetworkName } from "../cni/call/args.ts";
import { CniError, ErrorCode, toCniError } from "../base/error.ts";
import {
  appendPlugins,
  type NetworkConf,
  type NetworkConfList,
  parseDocument,
  parseNetworkConf,
  parseNetworkConfList,
  type PluginConf,
  toNetworkConfList,
} from "./conf.ts";
import { readFile } from "../base/files/io.ts";

/** A directory has no network configuration. */
export class NoConfigsFoundError extends CniError {
  /** The directory, as given. */
  readonly directory: string;

  /** Creates the error for a directory. */
  constructor(directory: string) {
    super(ErrorCode.Internal, `no net configurations found in ${directory}`);
    this.directory = directory;
  }
}

/** A directory has network configurations, but not the network's. */
export class NetworkNotFoundError extends CniError {
  /** The directory, as given. */
  readonly directory: string;
  /** The requested network. */
  readonly network: string;

  /** Creates the error for a network and a directory. */
  constructor(directory: string, network: string) {
    super(
      ErrorCode.Internal,
      `no net configuration with name "${network}" in ${directory}`,
    );
    this.directory = directory;
    this.network = network;
  }
}

const LISTS = [".conflist"], BARE_PLUGINS = [".conf", ".json"];

/**
 * Lists the files of a directory with certain extensions, in alphabetical
 * order.
 *
 * Subdirectories are not searched. Links count by their own names.
 *
 * @param extensions Such as `.conflist`, case-sensitive
 * @returns Paths that begin with the directory; empty if the directory does not
 *   exist
 * @throws {CniError} 5 If the directory cannot be read
 */
export function listConfFiles(
  directory: string,
  extensions: readonly string[],
): string[] {
  return listDirectory(directory)
    .filter(({ isDirectory, name }) =>
      // For a hidden file such as ".conf", the whole name is the extension.
      !isDirectory && extensions.includes(name.slice(name.lastIndexOf(".")))
    )
    .map(({ name }) => join(directory, name)).sort();
}

function listDirectory(directory: string): Deno.DirEntry[] {
  try {
    return [...Deno.readDirSync(directory)];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw unreadable(directory, error);
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
 * Reads the configuration of a network: the plugins of the file, then the
 * plugins in separate files, in alphabetical order. These files are in a
 * directory with the network's name, next to the file.
 *
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if the list has no plugins or the network's name is invalid
 */
export function readNetworkConfList(path: string): NetworkConfList {
  return addPluginFiles(parseFile(path, parseNetworkConfList), path);
}

function addPluginFiles(list: NetworkConfList, path: string): NetworkConfList {
  checkNameIn(path, list.name);
  const directory = join(dirname(path), list.name);
  const complete = list.loadOnlyInlinedPlugins
    ? list
    : appendPlugins(list, readPluginFiles(directory));
  if (complete.plugins.length > 0) return complete;
  const isBare = parseDocument("configuration list", list.bytes)["type"] !==
    undefined;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "no plugin configs found",
    {
      details:
        `"${path}" has no "plugins", and "${directory}" has no *.conf files` +
        (isBare
          ? "; a single-plugin configuration belongs in a file *.conf"
          : ""),
    },
  );
}

function readPluginFiles(directory: string): PluginConf[] {
  return listConfFiles(directory, [".conf"])
    .map((path) => readNetworkConf(path).plugin);
}

function parseFile<T>(path: string, parse: (bytes: Uint8Array) => T): T {
  const bytes = readConfFile(path);
  return inFile(path, () => parse(bytes));
}

/**
 * Reads a configuration file.
 *
 * @throws {CniError} 5 If it cannot be read
 */
export function readConfFile(path: string): Uint8Array {
  try {
    return readFile(path);
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** Checks the name before it is used in a path, where ".." could lead anywhere. */
function checkNameIn(path: string, name: string): void {
  inFile(path, () => checkNetworkName(name));
}

/** Adds the file to an error's details. */
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
 * Finds a network among the bare plugins of a directory. Reads files in
 * alphabetical order and stops at a malformed one.
 *
 * @throws {NoConfigsFoundError} Without any files `*.conf` or `*.json`
 * @throws {NetworkNotFoundError} If none of them has the network's name
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if the name is invalid
 */
export function findNetworkConf(directory: string, name: string): NetworkConf {
  const paths = listConfFiles(directory, BARE_PLUGINS);
  if (paths.length === 0) throw new NoConfigsFoundError(directory);
  for (const path of paths) {
    const conf = readNetworkConf(path);
    if (conf.name !== name) continue;
    checkNameIn(path, name);
    return conf;
  }
  throw new NetworkNotFoundError(directory, name);
}

/**
 * Finds a network in a directory: first among the lists, then among the bare
 * plugins. Reads files in alphabetical order and stops at a malformed one.
 * Other networks' names are not checked, and their directories are not read.
 *
 * @throws {NoConfigsFoundError} Without any configuration
 * @throws {NetworkNotFoundError} If none has the network's name
 * @throws {CniError} 5 If a file cannot be read, 6 or 7 if one is malformed, 7
 *   if the name is invalid
 */
export function findNetworkConfList(
  directory: string,
  name: string,
): NetworkConfList {
  const paths = listConfFiles(directory, LISTS);
  for (const path of paths) {
    const list = parseFile(path, parseNetworkConfList);
    if (list.name === name) return addPluginFiles(list, path);
  }
  try {
    return toNetworkConfList(findNetworkConf(directory, name));
  } catch (error) {
    if (paths.length === 0 || !(error instanceof NoConfigsFoundError)) {
      throw error;
    }
    throw new NetworkNotFoundError(directory, name);
  }
}

/** A network and its file. */
export interface FoundNetwork {
  /** The network. */
  readonly list: NetworkConfList;
  /** The file. */
  readonly path: string;
}

/**
 * Reads the networks of a directory lazily, lists and bare plugins together, in
 * alphabetical order of their files.
 *
 * @param onSkipped Receives each unusable file with its error
 * @throws {CniError} 5 If the directory cannot be read
 */
export function* readNetworks(
  directory: string,
  onSkipped: (path: string, error: CniError) => void = () => {},
): Generator<FoundNetwork, undefined> {
  for (const path of listConfFiles(directory, [...LISTS, ...BARE_PLUGINS])) {
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
 * Finds a node's default network: the first of {@linkcode readNetworks}.
 *
 * Source: the common behaviour of kubelet, CRI-O's ocicni and containerd.
 *
 * @param onSkipped Receives each unusable file before it, with its error
 * @returns Undefined if no file is usable
 * @throws {CniError} 5 If the directory cannot be read
 */
export function findDefaultNetwork(
  directory: string,
  onSkipped?: (path: string, error: CniError) => void,
): FoundNetwork | undefined {
  return readNetworks(directory, onSkipped).next().value;
}

function readEither(path: string): NetworkConfList {
  if (path.endsWith(".conflist")) return readNetworkConfList(path);
  const conf = readNetworkConf(path);
  checkNameIn(path, conf.name);
  return toNetworkConfList(conf);
}
