/**
 * Network configurations as administrators write them: lists of plugins, and
 * the bare plugins that were configurations before 1.0.0.
 *
 * Like the Go library, this matches the keys of a list exactly and the keys of a
 * plugin case-insensitively. Error messages are the Go library's; further hints
 * are in the details.
 *
 * Source: containernetworking/cni libcni/conf.go.
 *
 * @module
 */

import * as z from "zod/mini";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../base/error.ts";
import {
  decode,
  foldKey,
  type JsonObject,
  type JsonValue,
  once,
  parseJson,
  sortKeys,
} from "../base/json/json.ts";
import { givenDnsSchema, netConf, optional } from "../cni/config/types.ts";
import { encodeJson } from "../base/json/json_bytes.ts";
import { compareVersions, CURRENT_VERSION } from "../cni/version.ts";

/** One plugin of a network. */
export interface PluginConf {
  /** The plugin's executable. */
  readonly type: string;
  /** `name` in the plugin's own object; "" if absent. */
  readonly name: string;
  /** `cniVersion` in the plugin's own object; "" if absent. */
  readonly cniVersion: string;
  /** Keys of runtimeConfig, and whether the plugin declares them. */
  readonly capabilities: Readonly<Record<string, boolean>>;
  /** The whole object with unknown keys. */
  readonly document: JsonObject;
}

/** A network: a list of plugins. */
export interface NetworkConfList {
  /** The name as written, not checked; ADD refuses invalid names. */
  readonly name: string;
  /** The version chosen from those offered; "" if none is given. */
  readonly cniVersion: string;
  /** Whether CHECK does nothing. */
  readonly disableCheck: boolean;
  /** Whether GC does nothing. */
  readonly disableGc: boolean;
  /** Whether the network's directory with further plugins is ignored. */
  readonly loadOnlyInlinedPlugins: boolean;
  /** In the order in which ADD runs them. */
  readonly plugins: readonly PluginConf[];
  /** The file's content; with plugins from other files merged in, if there are any. */
  readonly bytes: Uint8Array;
}

/** A bare plugin that is a network on its own. */
export interface NetworkConf {
  /** `name` as written; "" if absent. */
  readonly name: string;
  /** `cniVersion` as written; "" if absent. */
  readonly cniVersion: string;
  /** The plugin, whose object is the whole configuration. */
  readonly plugin: PluginConf;
  /** The file. */
  readonly bytes: Uint8Array;
}

/**
 * Parses the configuration of a bare plugin.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is not a plugin's
 *   configuration
 */
export function parseNetworkConf(bytes: Uint8Array): NetworkConf {
  const plugin = decodePluginConf(parseDocument("configuration", bytes));
  const { name, cniVersion } = plugin;
  return { name, cniVersion, plugin, bytes };
}

/** Builds the schema of the keys that a runtime reads of a plugin. */
export const pluginSchema = once(() =>
  netConf({
    type: optional(z.string()),
    name: optional(z.string()),
    cniVersion: optional(z.string()),
    capabilities: optional(z.record(z.string(), z.nullable(z.boolean()))),
    dns: optional(givenDnsSchema()),
  })
);

/**
 * Reads the keys of a plugin that a runtime needs. Like the plugin itself, it
 * takes the last of several spellings of a key.
 *
 * @param value The plugin's object
 * @throws {CniError} 7 If it is not an object, the type is missing, or a key
 *   with a common meaning has a value of the wrong type
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

/** Hints at the cause. In containerd setups, lists in *.conf files are a common mistake. */
function missingType(document: JsonObject): CniError {
  const details = document["plugins"] === undefined
    ? ""
    : 'a configuration with "plugins" is a list, and its file is named *.conflist';
  return malformed("configuration", "missing 'type'", { details });
}

/**
 * Parses the configuration of a network.
 *
 * `plugins` may be absent, because plugins may be in files of their own.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is not a network
 *   configuration
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
 * Decodes the plugins inside another configuration.
 *
 * @throws {CniError} 7 If one is malformed; the message has its index
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

/** Lists the capabilities that plugins declare, without duplicates, in order. */
export function listCapabilities(plugins: readonly PluginConf[]): string[] {
  const wanted = plugins.flatMap(({ capabilities }) =>
    Object.keys(capabilities).filter((key) => capabilities[key])
  );
  return [...new Set(wanted)];
}

/** Wraps a bare plugin in a list, with a matching document. */
export function toNetworkConfList(conf: NetworkConf): NetworkConfList {
  const { name, cniVersion, plugin } = conf;
  const plugins = [plugin.document];
  return parseNetworkConfList(encodeJson({ name, cniVersion, plugins }));
}

/**
 * Appends plugins to a list and to its document. The document goes into the
 * runtime's cache, so DEL finds the plugins even after their files are deleted.
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

/** The name of a document in errors. */
export type DocumentKind = "configuration" | "configuration list";

/** Builds the error for a malformed document. */
function malformed(
  kind: DocumentKind,
  problem: string,
  { code = ErrorCode.InvalidNetworkConfig, details = "" }: {
    readonly code?: number;
    readonly details?: string;
  } = {},
): CniError {
  return new CniError(code, `error parsing ${kind}: ${problem}`, { details });
}

/**
 * Runs a parser and adds the kind of document to its error.
 *
 * @throws {CniError} With the code of the parser's error
 */
function decodeAs<T>(kind: DocumentKind, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const { code } = toCniError(error);
    throw malformed(kind, describeError(error), { code });
  }
}

/**
 * Parses a document; null counts as an empty object.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is not an object
 */
export function parseDocument(
  kind: DocumentKind,
  bytes: Uint8Array,
): JsonObject {
  return decodeAs(kind, () => {
    const document = parseJson(bytes, "it") ?? {};
    decode(z.looseObject({}), document, "it");
    return document as JsonObject;
  });
}

/**
 * Reads a string.
 *
 * @returns Undefined if it is absent
 * @throws {CniError} 7 If it is anything else, including null
 */
export function readText(
  document: JsonObject,
  key: string,
): string | undefined {
  const value = document[key];
  if (value === undefined || typeof value === "string") return value;
  throw malformedList(`invalid ${key} type ${nameType(value)}`);
}

/**
 * Reads a boolean, which may also be a string in any case.
 *
 * @returns False if it is absent
 * @throws {CniError} 7 If it is anything else
 */
export function readBool(document: JsonObject, key: string): boolean {
  const value = document[key];
  if (value === undefined) return false;
  if (typeof value === "boolean") return value;
  if (typeof value !== "string") {
    throw malformedList(`invalid type ${nameType(value)} for ${key}`);
  }
  const word = value.toLowerCase();
  if (word === "true" || word === "false") return word === "true";
  throw malformedList(`invalid value ${JSON.stringify(word)} for ${key}`);
}

/**
 * Reads the `plugins` of a list.
 *
 * @returns Undefined if absent
 * @throws {CniError} 7 If they are not an array, or it is empty
 */
export function readPlugins(document: JsonObject): JsonValue[] | undefined {
  const plugins = document["plugins"];
  if (plugins === undefined) return undefined;
  if (!Array.isArray(plugins)) {
    throw malformedList(`invalid 'plugins' type ${nameType(plugins)}`);
  }
  if (plugins.length === 0) throw malformedList("no plugins in list");
  return plugins;
}

/**
 * Chooses the newest supported version from `cniVersions` and `cniVersion`.
 *
 * @returns `cniVersion` unchecked if `cniVersions` is absent or has no
 *   supported version; "" if that is absent too
 * @throws {CniError} 7 If a version is not a string, or cannot be compared
 */
export function readVersion(document: JsonObject): string {
  const cniVersion = readText(document, "cniVersion") ?? "";
  const offers = readVersions(document);
  if (offers === undefined) return cniVersion;
  const spoken = offers.filter((version, index) =>
    isSpoken(version, `invalid cniVersions entry ${version} at index ${index}`)
  );
  const problem = `invalid cniVersion ${cniVersion}`;
  if (cniVersion !== "" && isSpoken(cniVersion, problem)) {
    spoken.push(cniVersion);
  }
  return spoken.sort(compareVersions).at(-1) ?? cniVersion;
}

function readVersions(document: JsonObject): string[] | undefined {
  const versions = document["cniVersions"];
  if (versions === undefined) return undefined;
  if (!Array.isArray(versions)) {
    throw malformedList(`invalid type for cniVersions: ${nameType(versions)}`);
  }
  return versions.map((version, index) => {
    if (typeof version === "string") return version;
    throw malformedList(
      `invalid type for cniVersions index ${index}: ${nameType(version)}`,
    );
  });
}

function isSpoken(version: string, problem: string): boolean {
  try {
    return compareVersions(version, CURRENT_VERSION) <= 0;
  } catch (error) {
    throw malformedList(`${problem}: ${describeError(error)}`);
  }
}

function malformedList(problem: string): CniError {
  return malformed("configuration list", problem);
}

function nameType(value: JsonValue): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** The part of a list that operations read. */
export type Network = Pick<
  NetworkConfList,
  "name" | "cniVersion" | "plugins" | "bytes"
>;

/** The part of a list that determines its plugins' input. */
export type PluginList = Pick<Network, "name" | "cniVersion" | "plugins">;

/** Wraps the configuration of a bare plugin in a list. */
export function asNetwork(
  { name, cniVersion, plugin, bytes }: NetworkConf,
): Network {
  return { name, cniVersion, plugins: [plugin], bytes };
}

/**
 * Parses the cached configuration of an attachment: a list, or a bare plugin, which
 * to the parser of lists is a list without plugins.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is not a network configuration
 */
export function parseCachedConfig(
  bytes: Uint8Array,
): Network & { readonly disableCheck?: boolean } {
  const list = parseNetworkConfList(bytes);
  return list.plugins.length > 0 ? list : asNetwork(parseNetworkConf(bytes));
}

/**
 * Sets keys of a plugin's configuration. Removes other spellings of them, which
 * a plugin might read instead.
 *
 * @throws {CniError} 7 If a key is empty, a value is null, or the result is not
 *   a plugin's configuration
 */
export function injectConf(
  document: JsonObject,
  keys: Readonly<Record<string, JsonValue>>,
): JsonObject {
  for (const [key, value] of Object.entries(keys)) checkInjected(key, value);
  return decodePluginConf(setKeys(document, keys)).document;
}

/** Sets keys of an object, and removes other spellings of them. */
export function setKeys(
  document: JsonObject,
  keys: Readonly<Record<string, JsonValue>>,
): JsonObject {
  const set = new Set(Object.keys(keys).map(foldKey));
  const kept = Object.entries(document)
    .filter(([key]) => !set.has(foldKey(key)));
  return Object.fromEntries([...kept, ...Object.entries(keys)]);
}

function checkInjected(key: string, value: JsonValue): void {
  const refuse = (problem: string): CniError =>
    new CniError(ErrorCode.InvalidNetworkConfig, problem);
  if (key === "") throw refuse("keys cannot be empty");
  if (value === null) throw refuse(`key '${key}' value must not be nil`);
}
