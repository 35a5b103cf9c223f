/**
 * The two forms of a network's configuration: a list of plugins, each of which
 * a runtime starts by itself, and a list of the plugin `chain` alone, which runs
 * the others.
 *
 * @module
 */

import { checkNetworkName } from "../cni/args.ts";
import { CniError, ErrorCode } from "../cni/error.ts";
import type { JsonObject, JsonValue } from "../cni/json.ts";
import {
  decodePluginConf,
  decodePluginConfs,
  listCapabilities,
  type NetworkConfList,
  parseNetworkConf,
  parseNetworkConfList,
  type PluginConf,
  toNetworkConfList,
} from "../cni/libcni/conf.ts";
import { parseDocument } from "../cni/libcni/conf_document.ts";
import { isSpecVersion } from "../cni/version.ts";

/** What a configuration can be made to be. */
export const FORMS = ["chain", "list"] as const;

/** One of {@linkcode FORMS}. */
export type Form = typeof FORMS[number];

/** The plugin that runs others. */
export const CHAIN = "chain";

/** A network's configuration as somebody wrote it. */
export interface WrittenNetwork {
  /** What a runtime reads in it. */
  readonly list: NetworkConfList;
  /** All of it, each number with the digits that it has in the file. */
  readonly document: JsonObject;
  /** Whether it is a bare plugin, which a list was made of. */
  readonly isBare: boolean;
}

/**
 * Parses a configuration, a list or a bare plugin.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is no network's configuration
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

/** A list may have a type, which nobody reads; a chain that is bare has plugins. */
function isBarePlugin(document: JsonObject): boolean {
  const key = Object.keys(document).find((key) => key.toLowerCase() === "type");
  if (key === undefined) return false;
  return document["plugins"] === undefined || document[key] === CHAIN;
}

/** Parses JSON so that it is printed with the numbers that it has: 1.0, 1e400. */
function parseExactly(bytes: Uint8Array): JsonObject {
  // TypeScript does not know of it yet.
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

/** Says which form a network has: a list is one that has no chain in it. */
export function formOf({ list: { plugins } }: WrittenNetwork): Form {
  return plugins.some(isChain) ? "chain" : "list";
}

function isChain({ type }: PluginConf): boolean {
  return type === CHAIN;
}

/**
 * Makes a network's configuration of a form; one that has it already is returned
 * as it is. A bare plugin becomes a list of it. All keys of the network and of
 * its plugins stay as they are.
 *
 * A chain gets all plugins, those of other chains in the network too.
 *
 * @throws {CniError} 7 If it cannot have that form
 */
export function convertTo(form: Form, network: WrittenNetwork): JsonObject {
  const { document, isBare } = network;
  const plugins = readExactPlugins(network);
  if (form === "chain" && plugins.length === 0) {
    throw refused("it has no plugins, all are in files of their own");
  }
  const all = unfoldChains(plugins);
  const links = all.filter((plugin) => !isChain(plugin));
  const wanted = form === "chain" ? [makeChain(links)] : links;
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

/** Reads the plugins with the numbers that they have in the file. */
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
  throw refused(`${CHAIN} does not serve its version, "${cniVersion}"`);
}

/** Makes a chain of plugins, which declares what any of them does. */
export function makeChain(plugins: readonly PluginConf[]): PluginConf {
  const wanted = listCapabilities(plugins).map((name) => [name, true] as const);
  return decodePluginConf({
    type: CHAIN,
    ...wanted.length > 0 && { capabilities: Object.fromEntries(wanted) },
    plugins: plugins.map(({ document }) => document),
  });
}

/** Finds the network's own keys, which of a bare plugin's are but two. */
function ownKeys({ document, isBare }: WrittenNetwork): JsonObject {
  if (!isBare) return document;
  const entries = Object.entries(document)
    .filter(([key]) => key === "name" || key === "cniVersion");
  return Object.fromEntries(entries);
}

/** Keys of a chain that the list says in other ways. */
const CHAIN_KEYS = ["type", "plugins", "capabilities"];

/** Refuses to take a chain apart where something of it would be lost. */
function checkLost(chain: PluginConf, kept: readonly string[]): void {
  const lost = Object.keys(chain.document)
    .filter((key) => !CHAIN_KEYS.includes(key) && !kept.includes(key));
  if (lost.length > 0) {
    const keys = lost.map((key) => JSON.stringify(key)).join(", ");
    throw refused(`its ${CHAIN} has what a list has no place for: ${keys}`);
  }
  if (linksOf(chain).length === 0) throw refused(`its ${CHAIN} has no plugins`);
}

/** Shows which plugins there are, and in which chains: `chain(ptp, sbr), x`. */
export function formatPlugins(plugins: readonly PluginConf[]): string {
  return plugins.map((plugin) =>
    isChain(plugin)
      ? `${CHAIN}(${formatPlugins(linksOf(plugin))})`
      : plugin.type
  ).join(", ");
}

/**
 * Lists plugins, each with those that it runs if it is a chain.
 *
 * @throws {CniError} 7 If a chain has something else among its plugins
 */
export function unfoldChains(plugins: readonly PluginConf[]): PluginConf[] {
  return placePlugins(plugins).map(({ conf }) => conf);
}

/** A plugin, and where it is in the configuration. */
export interface PlacedPlugin {
  readonly conf: PluginConf;
  /** Keys and indices, such as `["plugins", 0, "plugins", 1]`. */
  readonly path: readonly (string | number)[];
  /** The plugins that it runs, if it is a chain. */
  readonly links: readonly PluginConf[];
}

/** Lists plugins as {@linkcode unfoldChains} does, and says where they are. */
export function placePlugins(
  plugins: readonly PluginConf[],
  parent: readonly (string | number)[] = [],
): PlacedPlugin[] {
  return plugins.flatMap((conf, index) => {
    const path = [...parent, "plugins", index], links = linksOf(conf);
    return [{ conf, path, links }, ...placePlugins(links, path)];
  });
}

function linksOf({ type, document: { plugins } }: PluginConf): PluginConf[] {
  return type === CHAIN && Array.isArray(plugins)
    ? decodePluginConfs(plugins)
    : [];
}
