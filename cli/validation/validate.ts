/**
 * Validates a network: finds everything that its configuration reveals before a
 * container is attached.
 *
 * @module
 */

import { ErrorCode, toCniError } from "../../cni/error.ts";
import { objectOf, type Schema } from "../../cni/json.ts";
import { parseDocument } from "../../cni/libcni/conf_document.ts";
import type {
  NetworkConfList,
  NetworkRuntime,
  PluginConf,
} from "../../cni/libcni/mod.ts";
import { CURRENT_VERSION } from "../../cni/version.ts";
import { type PlacedPlugin, placePlugins } from "../chain_form.ts";
import { formatFailureText } from "../../tool/failure.ts";
import { findMissing, findOwnPlugin } from "../plugin_file.ts";
import {
  type CheckedPlugin,
  listStrangeKeys,
  listWrongValues,
} from "./keys.ts";
import { errorAt, type Problem } from "./problem.ts";
import {
  checkAddresses,
  checkCapabilities,
  checkChain,
  checkDevice,
  checkIpam,
  checkList,
  checkOrder,
} from "./rules.ts";

/** The tools to validate a network. */
export interface Validator {
  readonly runtime: NetworkRuntime;
  readonly pluginDirs: readonly string[];
  readonly signal: AbortSignal;
}

/** The outcome of a validation. */
export interface Validation {
  /** In the order of the configuration. */
  readonly problems: readonly Problem[];
  /** The types of other projects' plugins, which have no key checks. */
  readonly notChecked: readonly string[];
}

/**
 * Validates a network and all its plugins, including those in chains.
 *
 * @throws {CniError} 7 If a chain has a malformed plugin
 */
export async function validateNetwork(
  list: NetworkConfList,
  validator: Validator,
): Promise<Validation> {
  const document = parseDocument("configuration list", list.bytes);
  const placed = placePlugins(list.plugins);
  const problems = [...checkList(list, document), ...checkOrder(placed)];
  const foreign = new Set<string>();
  for (const plugin of placed) {
    const schemas = await findSchemas(plugin.conf, validator, foreign);
    const checked = { conf: plugin.conf, place: plugin.path, ...schemas };
    problems.push(...await checkPlugin(list, plugin, checked, validator));
  }
  return { problems: sortByPath(problems), notChecked: [...foreign] };
}

/** Sorts problems by place; those of one plugin keep their order. */
function sortByPath(problems: readonly Problem[]): Problem[] {
  const order = (path: string): string =>
    (/^(plugins\[\d+\]\.?)*/.exec(path)?.[0] ?? "")
      .replace(/\d+/g, (index) => index.padStart(9, "0"));
  return problems.toSorted((left, right) =>
    order(left.path) < order(right.path)
      ? -1
      : Number(order(left.path) > order(right.path))
  );
}

/** @param foreign Collects the types of other projects' plugins */
async function findSchemas(
  { type, document }: PluginConf,
  { pluginDirs }: Validator,
  foreign: Set<string>,
): Promise<Pick<CheckedPlugin, "own" | "ipam">> {
  const find = async (type: string): Promise<Schema<unknown> | undefined> => {
    const plugin = await findOwnPlugin(type, pluginDirs);
    if (plugin === undefined) foreign.add(type);
    return await plugin?.configSchema();
  };
  const ipamType = findIpamType(document);
  return {
    own: await find(type),
    ipam: ipamType === undefined ? undefined : await find(ipamType),
  };
}

function findIpamType(document: PluginConf["document"]): string | undefined {
  const { type } = objectOf(document["ipam"]);
  return typeof type === "string" && type !== "" ? type : undefined;
}

async function checkPlugin(
  list: NetworkConfList,
  placed: PlacedPlugin,
  checked: CheckedPlugin,
  validator: Validator,
): Promise<Problem[]> {
  const isOurs = (type: string): boolean =>
    checked.ipam !== undefined && type === findIpamType(placed.conf.document);
  const problems = [
    ...await checkExecutables(list, placed, validator),
    ...listWrongValues(checked),
    ...listStrangeKeys(checked),
    ...checkChain(placed),
    ...checkIpam(checked, isOurs),
    ...checkDevice(checked),
    ...checkCapabilities(checked),
    ...checkAddresses(checked),
  ];
  // A known problem would only be repeated in other words.
  if (problems.some(({ severity }) => severity === "error")) return problems;
  return [...problems, ...await askForErrors(list, checked, validator)];
}

async function checkExecutables(
  { cniVersion, name, bytes }: NetworkConfList,
  { conf, path }: PlacedPlugin,
  { runtime, pluginDirs, signal }: Validator,
): Promise<Problem[]> {
  const ipamType = findIpamType(conf.document);
  const ipam = ipamType && findMissing(ipamType, pluginDirs);
  const missing = findMissing(conf.type, pluginDirs);
  const problems = ipam ? [errorAt([...path, "ipam", "type"], ipam)] : [];
  if (missing) return [errorAt([...path, "type"], missing), ...problems];
  try {
    const network = { plugin: conf, cniVersion, name, bytes };
    await runtime.validateNetwork(network, { signal });
    return problems;
  } catch (error) {
    return [errorAt(path, formatFailureText(error)), ...problems];
  }
}

/** Plugins with a STATUS that goes beyond their configuration, or writes files. */
const NOT_ASKED = ["chain", "debug", "flannel", "multus"];

/**
 * Runs STATUS of a plugin and its IPAM plugin, if both are this project's, to
 * find values that do not fit together. Whether the node is ready does not
 * matter here.
 */
async function askForErrors(
  list: NetworkConfList,
  { conf, place, own, ipam }: CheckedPlugin,
  { runtime, signal }: Validator,
): Promise<Problem[]> {
  const ipamType = findIpamType(conf.document) ?? "";
  const areOurs = own !== undefined && (ipamType === "" || ipam !== undefined);
  if (!areOurs || NOT_ASKED.includes(conf.type)) return [];
  const types: [type: string, place: PropertyKey[]][] = [[conf.type, [
    ...place,
  ]]];
  if (ipam !== undefined) types.unshift([ipamType, [...place, "ipam"]]);
  for (const [type, place] of types) {
    // Older versions have no STATUS, and the plugins support all versions.
    const plugins = [{ ...conf, type }];
    const asked = { ...list, cniVersion: CURRENT_VERSION, plugins };
    try {
      await runtime.statusNetworkList(asked, { signal });
    } catch (error) {
      const { code } = toCniError(error);
      if (code !== ErrorCode.InvalidNetworkConfig) continue;
      // The plugin would report the same as its IPAM plugin.
      return [errorAt(place, toCniError(error).message)];
    }
  }
  return [];
}
