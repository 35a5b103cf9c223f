/**
 * The two forms of a network's configuration: a list of plugins that the
 * runtime starts one by one, and a list with only the plugin `chain`, which
 * runs the others.
 *
 * @module
 */

import { checkNetworkName } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import {
  findValue,
  foldKey,
  type JsonObject,
  type JsonValue,
  sortKeys,
} from "../../base/json/json.ts";
import {
  decodePluginConf,
  decodePluginConfs,
  listCapabilities,
  type NetworkConfList,
  parseDocument,
  parseNetworkConf,
  parseNetworkConfList,
  type PluginConf,
  toNetworkConfList,
} from "../../libcni/conf.ts";
import { isSpecVersion } from "../../cni/version.ts";
import { SocketKey } from "../../daemon/wire/daemon_socket.ts";

/** The form of a configuration. */
export type Form = "chain" | "list";

/** The type of the plugin that runs a list of plugins. */
export const CHAIN = "chain";

/** A network's configuration as written in a file. */
export interface WrittenNetwork {
  /** The configuration as a runtime reads it. */
  readonly list: NetworkConfList;
  /** The whole document, with all numbers as written. */
  readonly document: JsonObject;
  /** Whether the file has a bare plugin, from which the list was made. */
  readonly isBare: boolean;
}

/**
 * Parses a list or a bare plugin.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is not a network
 *   configuration
 */
export function parseWritten(bytes: Uint8Array): WrittenNetwork {
  const document = parseDocument("configuration", bytes);
  const isBare = isBarePlugin(document);
  const list = isBare
    ? toNetworkConfList(parseNetworkConf(bytes))
    : parseNetworkConfList(bytes);
  checkNetworkName(list.name);
  return { list, document: parseExactly(bytes), isBare };
}

/** Reports whether it is a bare plugin. The type of a list is ignored; a bare chain has plugins. */
function isBarePlugin(document: JsonObject): boolean {
  const type = findType(document);
  if (type === undefined) return false;
  return document["plugins"] === undefined || type === CHAIN;
}

/** Finds the type of a plugin. Runtimes sort the keys, so the last in that order counts. */
export function findType(document: JsonObject): JsonValue | undefined {
  return findValue(sortKeys(document), "type");
}

/** Finds the socket of a plugin's daemon, like {@linkcode findType}. */
export function findSocket(document: JsonObject): JsonValue | undefined {
  return findValue(sortKeys(document), SocketKey.socket);
}

/** Parses JSON and keeps the spelling of numbers, such as 1.0 and 1e400. */
function parseExactly(bytes: Uint8Array): JsonObject {
  // TypeScript does not declare it yet.
  const { rawJSON } = JSON as unknown as {
    rawJSON(text: string): JsonValue;
  };
  return JSON.parse(
    new TextDecoder().decode(bytes),
    (_key, value: JsonValue, { source = "" }: { source?: string } = {}) =>
      typeof value !== "number" || String(value) === source
        ? value
        : rawJSON(source),
  );
}

/** Returns a network's form: `chain` if any of its plugins is a chain. */
export function formOf({ list: { plugins } }: WrittenNetwork): Form {
  return plugins.some(isChain) ? "chain" : "list";
}

function isChain({ type }: PluginConf): boolean {
  return type === CHAIN;
}

/**
 * Converts a network's configuration to a form; returns it unchanged if it
 * already has that form. A bare plugin becomes a list. Keeps all keys of the
 * network and its plugins.
 *
 * A new chain gets all plugins, including the plugins of other chains in the
 * network.
 *
 * @throws {CniError} 7 If the conversion is impossible
 */
export function convertTo(form: Form, network: WrittenNetwork): JsonObject {
  const { document, isBare } = network;
  const plugins = readExactPlugins(network);
  if (form === "chain" && plugins.length === 0) {
    throw refused("all its plugins are in files of their own");
  }
  const all = unfoldChains(plugins);
  const links = all.filter((plugin) => !isChain(plugin));
  const socket = all.map(({ document }) => findSocket(document))
    .find((found) => found !== undefined);
  // Only what a runtime starts is run by the daemon: the chain, or each plugin.
  const wanted = form === "chain"
    ? [setSocket(makeChain(setSockets(links, undefined)), socket)]
    : setSockets(links, socket);
  if (!isBare && formatPlugins(wanted) === formatPlugins(plugins)) {
    return document;
  }
  if (wanted.some(isChain)) checkVersion(network);
  const own = ownKeys(network);
  for (const chain of all.filter(isChain)) {
    checkLost(chain, isBare && chain === plugins[0] ? Object.keys(own) : []);
  }
  return { ...own, plugins: wanted.map(({ document }) => document) };
}

function setSockets(
  plugins: readonly PluginConf[],
  socket: JsonValue | undefined,
): PluginConf[] {
  return plugins.map((plugin) => setSocket(plugin, socket));
}

/** @param socket Undefined to remove the key */
function setSocket(
  plugin: PluginConf,
  socket: JsonValue | undefined,
): PluginConf {
  const { document } = plugin;
  if (findSocket(document) === socket) return plugin;
  const others = Object.entries(document)
    .filter(([key]) => !isSocketKey(key));
  const wanted = socket === undefined ? [] : [[SocketKey.socket, socket]];
  return decodePluginConf(Object.fromEntries([...others, ...wanted]));
}

/**
 * Has the node daemon run the plugins of a list, or no longer.
 *
 * @param types The plugins that can have a daemon
 * @param socket Undefined to remove the key
 * @returns The same document if nothing changes
 */
export function withDaemon(
  document: JsonObject,
  types: readonly string[],
  socket: string | undefined,
): JsonObject {
  const { plugins: written } = document;
  const plugins = decodePluginConfs(Array.isArray(written) ? written : []);
  const changed = plugins.map((plugin) =>
    types.includes(plugin.type) ? setSocket(plugin, socket) : plugin
  );
  if (changed.every((plugin, index) => plugin === plugins[index])) {
    return document;
  }
  return { ...document, plugins: changed.map(({ document }) => document) };
}

/** Reads the plugins with their numbers as written. */
function readExactPlugins({ document, isBare }: WrittenNetwork): PluginConf[] {
  const { plugins } = document;
  if (isBare) return decodePluginConfs([document]);
  return decodePluginConfs(Array.isArray(plugins) ? plugins : []);
}

function refused(problem: string): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, problem);
}

function checkVersion({ list: { cniVersion } }: WrittenNetwork): void {
  if (cniVersion === "" || isSpecVersion(cniVersion)) return;
  throw refused(`${CHAIN} does not support its version, "${cniVersion}"`);
}

/** Wraps plugins in a chain, which declares all their capabilities. */
export function makeChain(plugins: readonly PluginConf[]): PluginConf {
  const wanted = listCapabilities(plugins).map((name) => [name, true] as const);
  return decodePluginConf({
    type: CHAIN,
    ...wanted.length > 0 && { capabilities: Object.fromEntries(wanted) },
    plugins: plugins.map(({ document }) => document),
  });
}

/** Returns the network's own keys. Of a bare plugin's keys, there are only two. */
function ownKeys({ document, isBare }: WrittenNetwork): JsonObject {
  if (!isBare) return document;
  const entries = Object.entries(document)
    .filter(([key]) => key === "name" || key === "cniVersion");
  return Object.fromEntries(entries);
}

/** Keys of a chain that a list expresses in other ways. */
const CHAIN_KEYS = ["type", "plugins", "capabilities"];

function isSocketKey(key: string): boolean {
  return foldKey(key) === foldKey(SocketKey.socket);
}

/** Refuses to unwrap a chain if that would lose something. */
function checkLost(chain: PluginConf, kept: readonly string[]): void {
  const lost = Object.keys(chain.document)
    .filter((key) =>
      !CHAIN_KEYS.includes(key) && !isSocketKey(key) && !kept.includes(key)
    );
  if (lost.length > 0) {
    const keys = lost.map((key) => JSON.stringify(key)).join(", ");
    throw refused(`its ${CHAIN} has keys that a list cannot have: ${keys}`);
  }
  if (linksOf(chain).length === 0) throw refused(`its ${CHAIN} has no plugins`);
}

/** Formats plugins and chains: `chain(ptp, sbr), x`. */
export function formatPlugins(plugins: readonly PluginConf[]): string {
  return plugins.map((plugin) =>
    isChain(plugin)
      ? `${CHAIN}(${formatPlugins(linksOf(plugin))})`
      : plugin.type
  ).join(", ");
}

/**
 * Lists plugins, and the plugins of chains after their chain.
 *
 * @throws {CniError} 7 If a chain has a malformed plugin
 */
export function unfoldChains(plugins: readonly PluginConf[]): PluginConf[] {
  return placePlugins(plugins).map(({ conf }) => conf);
}

/** A plugin and its place in the configuration. */
export interface PlacedPlugin {
  readonly conf: PluginConf;
  /** Keys and indices, such as `["plugins", 0, "plugins", 1]`. */
  readonly path: readonly (string | number)[];
  /** The plugins of a chain; empty for other plugins. */
  readonly links: readonly PluginConf[];
}

/** Lists plugins like {@linkcode unfoldChains}, with their places. */
export function placePlugins(
  plugins: readonly PluginConf[],
  parent: readonly (string | number)[] = [],
): PlacedPlugin[] {
  return plugins.flatMap((conf, index) => {
    const path = [...parent, "plugins", index], links = linksOf(conf);
    return [{ conf, path, links }, ...placePlugins(links, path)];
  });
}

function linksOf({ type, document }: PluginConf): PluginConf[] {
  const plugins = findValue(document, "plugins");
  return type === CHAIN && Array.isArray(plugins)
    ? decodePluginConfs(plugins)
    : [];
}
