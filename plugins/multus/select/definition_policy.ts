/**
 * Limits for a configuration from the API. A user who may create a
 * NetworkAttachmentDefinition is often a tenant, and plugins run as root.
 *
 * Configurations in files of the node are not concerned: root wrote them.
 *
 * @module
 */

import type { Named } from "../../../metadata/plugin_keys.ts";
import { findNodeKey, isUsual, type NodeKey } from "../../node_keys.ts";
import {
  foldKey,
  formatPath,
  isObject,
  type JsonObject,
  type JsonValue,
} from "../../../base/json/json.ts";
import { typeHas } from "../../parts/traits.ts";
import { parseDocument } from "../../../libcni/conf.ts";
import type { MultusConfig } from "../model/config.ts";
import {
  type Delegate,
  isList,
  isOwnType,
  refuseSelf,
} from "../model/delegate.ts";
import { refusal } from "../model/network_error.ts";

/** The settings of the node. */
export type DefinitionPolicy = Pick<
  MultusConfig,
  "definitionTypes" | "definitionKeys"
>;

/** In `definitionTypes`: every plugin except {@linkcode isRestricted}. */
const EVERY = "*";

/** Programs of this project that are not plugins. */
const PROGRAMS: readonly string[] = ["cni", "cnitool", "noop"];

/** Reports whether `definitionTypes` must name a plugin. */
function isRestricted(type: string): boolean {
  return PROGRAMS.includes(type) || typeHas(type, "runs what it names");
}

/** Says what a key names. */
const TEXTS: Readonly<Record<Named, string>> = {
  path: "a file on the node",
  directory: "a directory on the node",
  network: "a network on the node",
  socket: "a socket on the node",
  program: "input for a program on the node",
  request: "part of a request to a daemon",
  firewall: "a chain, zone or mark of the node's firewall",
  address: "an address of the node",
  interface: "an interface on the node",
};

/** Limits for a definition, far above what networks use. */
const MAX_BYTES = 64 * 1024, MAX_PLUGINS = 64;

/**
 * Refuses a definition that is larger than a node bears: an object of the API may
 * have 65 000 plugins, and a daemon serves the whole node.
 *
 * @param config Its text or bytes
 * @param origin What errors call it
 * @throws {NetworkError} 7 If it is too large
 * @throws {CniError} 6 If it is not JSON, 7 if it is not an object
 */
export function checkSize(config: Uint8Array, origin: string): void {
  if (config.length > MAX_BYTES) {
    throw refusal(
      `Refused ${origin}: it has ${config.length} bytes; the limit is ${MAX_BYTES}`,
    );
  }
  const plugins = parseDocument("configuration", config)["plugins"];
  const count = Array.isArray(plugins) ? plugins.length : 1;
  if (count <= MAX_PLUGINS) return;
  throw refusal(
    `Refused ${origin}: it has ${count} plugins; the limit is ${MAX_PLUGINS}`,
  );
}

/**
 * Refuses a configuration from the API that names a plugin, a file, a program
 * or a socket that it must not name. Any object with a `type` counts as the
 * configuration of a plugin, at any depth, because plugins run further plugins.
 *
 * @param origin What errors call it, such as `NetworkAttachmentDefinition "a/b"`
 * @throws {NetworkError} 7 With the key, and the setting that allows it
 * @throws {CniError} 7 If it is multus
 */
export function checkDefinition(
  delegate: Delegate,
  origin: string,
  policy: DefinitionPolicy,
): void {
  refuseSelf(delegate);
  const { conf } = delegate;
  const problem = isList(conf)
    ? conf.plugins
      .map(({ document }, index) =>
        findProblem(document, ["plugins", index], "", policy)
      ).find((one) => one !== undefined)
    : findProblem(conf.plugin.document, [], "", policy);
  if (problem === undefined) return;
  throw refusal(`Refused ${origin}: ${problem}`);
}

/**
 * Refuses `cni-args` of a pod that name something of the node. Users who may
 * create pods must not name these, whatever the network's definition may name.
 *
 * @param name The network
 * @throws {NetworkError} 7 With the key
 */
export function checkArguments(cniArgs: JsonObject, name: string): void {
  const none = { definitionTypes: [EVERY], definitionKeys: [] };
  const problem = findProblem(cniArgs, [], "", none);
  if (problem === undefined) return;
  const [what] = problem.split(";");
  throw refusal(`Refused "cni-args" on network "${name}": ${what}`);
}

type Path = readonly PropertyKey[];

/** @param type The plugin that reads the value; "" outside of all */
function findProblem(
  value: JsonValue,
  path: Path,
  type: string,
  policy: DefinitionPolicy,
): string | undefined {
  if (Array.isArray(value)) {
    return firstOf(
      value.entries(),
      ([index, item]) => findProblem(item, [...path, index], type, policy),
    );
  }
  if (!isObject(value)) return undefined;
  const items = Object.entries(value as JsonObject)
    .map(([key, item]): Item => ({
      path: [...path, key],
      key: foldKey(key),
      value: item,
    }));
  const own = typeOf(items) ?? type;
  return firstOf(
    items,
    (item) =>
      findTypeProblem(item, policy) ?? findKeyProblem(item, own, policy) ??
        findProblem(item.value, item.path, own, policy),
  );
}

/** A key of an object. */
interface Item {
  readonly path: Path;
  /** As {@linkcode foldKey} returns it. */
  readonly key: string;
  readonly value: JsonValue;
}

function firstOf<T>(
  items: Iterable<T>,
  find: (item: T) => string | undefined,
): string | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Plugins read the last one of several. */
function typeOf(items: readonly Item[]): string | undefined {
  return items.findLast(isType)?.value;
}

function isType(item: Item): item is Item & { readonly value: string } {
  const { key, value } = item;
  return key === "type" && typeof value === "string" && value !== "";
}

function findTypeProblem(
  item: Item,
  { definitionTypes }: DefinitionPolicy,
): string | undefined {
  if (!isType(item)) return undefined;
  const { path, value } = item;
  const what = `${quotePath(path)} is ${quote(value)}`;
  if (isOwnType(value)) return `${what}: multus would call itself`;
  const isAllowed = definitionTypes.includes(value) ||
    definitionTypes.includes(EVERY) && !isRestricted(value);
  return isAllowed
    ? undefined
    : `${what}, which definitions are not allowed to run; to allow it, add it to ` +
      `"definitionTypes" in the node's multus configuration`;
}

function findKeyProblem(
  { path, key, value }: Item,
  type: string,
  { definitionKeys }: DefinitionPolicy,
): string | undefined {
  const row = findNodeKey(key);
  const what = row === undefined
    ? findNamed(path, key, value)
    : isHarmless(row, value)
    ? undefined
    : TEXTS[row.names];
  if (what === undefined) return undefined;
  const isAllowed = definitionKeys.some((one) =>
    one.startsWith(`${type}.`) && foldKey(one.slice(type.length + 1)) === key
  );
  if (isAllowed) return undefined;
  const name = `${type}.${row?.key ?? String(path.at(-1))}`;
  return `${quotePath(path)} names ${what}; to allow it, add ${quote(name)} ` +
    `to "definitionKeys" in the node's multus configuration`;
}

function isHarmless(row: NodeKey, value: JsonValue): boolean {
  return row.names === "interface" || !isSet(value) || isUsual(row, value) ||
    // A capability has the name of the key that the runtime sets.
    value === true && row.names !== "request";
}

/** Ends of keys by which other projects' plugins name files and servers. */
const NAMING = /(file|path|dir|directory|directorie|endpoint)s?$|sock/;

/** Paths and sockets; not a prefix length such as `/24`. */
const PLACE = /^\/(?!\d{1,3}$)|^(unix|file):|(^|\/)\.\.(\/|$)/;

/** Guesses what a third-party plugin's key names. */
function findNamed(
  path: Path,
  key: string,
  value: JsonValue,
): string | undefined {
  const texts = (Array.isArray(value) ? value : [value])
    .filter((text) => typeof text === "string" && text !== "") as string[];
  // The keys of this object are names of sysctls.
  if (texts.length === 0 || foldKey(String(path.at(-2))) === "sysctl") {
    return undefined;
  }
  const isNaming = NAMING.test(key) && !key.endsWith("profile");
  return isNaming || texts.some((text) => PLACE.test(text))
    ? "a possible file or socket on the node"
    : undefined;
}

/** Reports whether plugins use a value instead of their default. */
function isSet(value: JsonValue): boolean {
  if (typeof value === "object") return Object.keys(value ?? {}).length > 0;
  return value !== "" && value !== false;
}

/** Longest part of a name in errors: events have room for 1024 bytes. */
const MAX_LENGTH = 100;

function quotePath(path: Path): string {
  return quote(formatPath(path));
}

function quote(text: string): string {
  return JSON.stringify(
    text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text,
  );
}
