/**
 * Network configurations as administrators write them: lists of plugins, and
 * the bare plugin that was a configuration of its own before 1.0.0.
 *
 * The keys of a list are read to the letter, those of a plugin in any case, for
 * that is how the Go library reads them. The message of an error is that
 * library's text; what else may help is in the details.
 *
 * Source: containernetworking/cni libcni/conf.go.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, toCniError } from "../error.ts";
import { decode, type JsonObject, type JsonValue, sortKeys } from "../json.ts";
import { givenDnsSchema, netConf, once, optional } from "../types.ts";
import {
  decodeAs,
  malformed,
  parseDocument,
  readBool,
  readPlugins,
  readText,
  readVersion,
} from "./conf_document.ts";
import { encodeJson } from "./json_bytes.ts";

/** One plugin of a network. */
export interface PluginConf {
  /** The name of its executable. */
  readonly type: string;
  /** What the plugin's own object calls the network; "" if absent. */
  readonly name: string;
  /** The version that the plugin's own object names; "" if absent. */
  readonly cniVersion: string;
  /** Keys of runtimeConfig, and whether the plugin wants them. */
  readonly capabilities: Readonly<Record<string, boolean>>;
  /** The whole object, unknown keys and all. */
  readonly document: JsonObject;
}

/** A network: the plugins that make it. */
export interface NetworkConfList {
  /** As it is written, be it valid or not; ADD refuses what is not. */
  readonly name: string;
  /** The version that was chosen of those offered; "" if none was. */
  readonly cniVersion: string;
  /** CHECK shall do nothing. */
  readonly disableCheck: boolean;
  /** GC shall do nothing. */
  readonly disableGc: boolean;
  /** The network's folder with further plugins shall not be read. */
  readonly loadOnlyInlinedPlugins: boolean;
  /** In the order in which ADD runs them. */
  readonly plugins: readonly PluginConf[];
  /** The file; if plugins of other files were added, one that has them all. */
  readonly bytes: Uint8Array;
}

/** A bare plugin that is a network by itself. */
export interface NetworkConf {
  /** As it is written; "" if absent. */
  readonly name: string;
  /** As it is written; "" if absent. */
  readonly cniVersion: string;
  /** The plugin, whose object is the whole configuration. */
  readonly plugin: PluginConf;
  /** The file. */
  readonly bytes: Uint8Array;
}

/**
 * Parses the configuration of a bare plugin.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is no plugin's configuration
 */
export function parseNetworkConf(bytes: Uint8Array): NetworkConf {
  const plugin = decodePluginConf(parseDocument("configuration", bytes));
  const { name, cniVersion } = plugin;
  return { name, cniVersion, plugin, bytes };
}

const pluginSchema = once(() =>
  netConf({
    type: optional(z.string()),
    name: optional(z.string()),
    cniVersion: optional(z.string()),
    capabilities: optional(z.record(z.string(), z.nullable(z.boolean()))),
    dns: optional(givenDnsSchema()),
  })
);

/**
 * Reads what a runtime has to know of a plugin, in the order of keys in which
 * the plugin will read it: of several spellings of one the last counts.
 *
 * @param value The plugin's object
 * @throws {CniError} 7 If it is none, the type is missing, or a key that means
 *   the same to every plugin has a value of another type
 */
export function decodePluginConf(value: JsonValue): PluginConf {
  const document = (value ?? {}) as JsonObject;
  const { type = "", name = "", cniVersion = "", capabilities = {} } = decodeAs(
    "configuration",
    () => decode(pluginSchema(), sortKeys(document), "it"),
  );
  if (type === "") throw missingType(document);
  const wanted = Object.entries(capabilities)
    .map(([capability, isWanted]) => [capability, isWanted ?? false] as const);
  return {
    type,
    name,
    cniVersion,
    capabilities: Object.fromEntries(wanted),
    document,
  };
}

/** Source: of the hint, containerd, where lists in *.conf are a common mistake. */
function missingType(document: JsonObject): CniError {
  const details = document["plugins"] === undefined
    ? ""
    : 'a configuration with "plugins" is a list, and its file is named *.conflist';
  return malformed("configuration", "missing 'type'", { details });
}

/**
 * Parses the configuration of a network.
 *
 * Without `plugins` it has none, for they may be in files of their own.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is no network's configuration
 */
export function parseNetworkConfList(bytes: Uint8Array): NetworkConfList {
  const document = parseDocument("configuration list", bytes);
  const name = readText(document, "name");
  if (name === undefined) throw malformed("configuration list", "no name");
  const list = {
    name,
    cniVersion: readVersion(document),
    disableCheck: readBool(document, "disableCheck"),
    disableGc: readBool(document, "disableGC"),
    loadOnlyInlinedPlugins: readBool(document, "loadOnlyInlinedPlugins"),
  };
  const plugins = readPlugins(document);
  if (plugins === undefined && list.loadOnlyInlinedPlugins) {
    throw malformed(
      "configuration list",
      "`loadOnlyInlinedPlugins` is true, and no 'plugins' key",
    );
  }
  return { ...list, plugins: decodePluginConfs(plugins ?? []), bytes };
}

/**
 * Reads the plugins that are in another configuration.
 *
 * @throws {CniError} 7 If one is no plugin's configuration; it says which
 */
export function decodePluginConfs(
  values: readonly JsonValue[],
): PluginConf[] {
  return values.map(decodeInlined);
}

function decodeInlined(value: JsonValue, index: number): PluginConf {
  try {
    return decodePluginConf(value);
  } catch (error) {
    const { code, message, details } = toCniError(error);
    const problem = `failed to parse plugin config ${index}: ${message}`;
    throw new CniError(code, problem, { details });
  }
}

/** Lists what plugins want of the runtime, each once, in order. */
export function listCapabilities(plugins: readonly PluginConf[]): string[] {
  const wanted = plugins.flatMap(({ capabilities }) =>
    Object.keys(capabilities).filter((key) => capabilities[key])
  );
  return [...new Set(wanted)];
}

/** Makes a list of a bare plugin, with a document to go with it. */
export function toNetworkConfList(conf: NetworkConf): NetworkConfList {
  const { name, cniVersion, plugin } = conf;
  const plugins = [plugin.document];
  return parseNetworkConfList(encodeJson({ name, cniVersion, plugins }));
}

/**
 * Appends plugins to a list, and to its document: from that, in a runtime's
 * cache, DEL shall find them when their files are gone.
 */
export function appendPlugins(
  list: NetworkConfList,
  added: readonly PluginConf[],
): NetworkConfList {
  if (added.length === 0) return list;
  const plugins = [...list.plugins, ...added];
  const bytes = encodeJson({
    ...parseDocument("configuration list", list.bytes),
    loadOnlyInlinedPlugins: true,
    plugins: plugins.map(({ document }) => document),
  });
  return { ...list, plugins, bytes };
}
