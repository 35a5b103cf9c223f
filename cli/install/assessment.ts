/**
 * The effect of an installation on the networks of a node.
 *
 * @module
 */

import { foldKey, isObject, type JsonObject } from "../../base/json/json.ts";
import type { PluginConf } from "../../libcni/mod.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { findLowLimits } from "../doctor/runtimes.ts";
import { type ConfiguredNetwork, NodeReader } from "../node/node_reader.ts";
import type { CniCall } from "../flags.ts";
import { readDirectories } from "../node/network.ts";
import { givenOf } from "../validate/document.ts";
import {
  type ConfigPath,
  formatPlace,
  listOf,
  type Problem,
} from "../../metadata/problem.ts";
import { validateNetwork } from "../validate/validate.ts";
import type { Change, Undone } from "./installation.ts";
import { listTypes } from "../node/plugin_types.ts";
import { ipamTypeOf } from "../../cni/config/ipam.ts";

/** The effect of an installation on a network. */
interface NetworkAssessment {
  readonly network: string;
  readonly file: string;
  /** The changes of its plugins, by type. */
  readonly plugins: Readonly<Record<string, Change | Undone | "kept">>;
  /** Keys that the new plugins do not know: what they stand for is not done. */
  readonly unknownKeys: readonly string[];
  /** Differences from the Go plugins, for the keys that it uses. */
  readonly differences: readonly string[];
  /** Values that the new plugins refuse. */
  readonly errors: readonly string[];
}

/** The effect of an installation on a node. */
export interface NodeAssessment {
  readonly networks: readonly NetworkAssessment[];
  /** Limits of the runtime's service that are too low. */
  readonly limits: readonly string[];
}

/** Assesses the networks of the configuration directory as if plugins were installed. */
export async function assessNode(
  call: CniCall,
  changes: ReadonlyMap<string, Change | Undone>,
): Promise<NodeAssessment> {
  const { env, signal } = call;
  using node = new NodeReader({
    directories: readDirectories(call),
    env,
    signal,
  });
  const networks: NetworkAssessment[] = [];
  for (const network of node.networks) {
    networks.push(await assess(network, node, changes));
  }
  return { networks, limits: findLowLimits(node).map((one) => one.message) };
}

/** Changes after which a plugin might refuse a configuration that its predecessor accepted. */
const NEW: readonly Change[] = ["installed", "updated", "replaced"];

async function assess(
  { name, path, list, plugins: all }: ConfiguredNetwork,
  { runtime, signal }: NodeReader,
  changes: ReadonlyMap<string, Change | Undone>,
): Promise<NetworkAssessment> {
  // Without a directory, the keys of all plugins are checked, installed or not.
  const validator = { runtime, pluginDirs: [], env: {}, signal };
  const { problems, types } = await validateNetwork(givenOf(list), validator);
  const listChanged = (
    document: JsonObject | undefined,
    among: readonly string[] = ["replaced"],
  ): string[] =>
    listTypes(document).filter((type) =>
      among.includes(changes.get(type) ?? "")
    );
  const listDifferencesOf = (part: JsonObject): string[] => {
    const text = JSON.stringify(part);
    return listChanged(part).flatMap((type) => listDifferences(type, text));
  };
  const parts = list.plugins.flatMap(({ document }) => listParts(document));
  const known = all.flatMap(({ document }) => listTypes(document))
    .filter((type) => pluginNames.includes(type));
  const ipam = all.flatMap((conf) => ipamTypeOf(conf.document) ?? []);
  const plugins = [...new Set([...types, ...ipam, ...known])]
    .map((type) => [type, changes.get(type) ?? "kept"] as const);
  const isAt = (place: ConfigPath, among: readonly string[]): boolean =>
    listChanged(findPart(list.plugins, place), among).length > 0;
  return {
    network: name,
    file: path,
    plugins: Object.fromEntries(plugins),
    differences: [...new Set(parts.flatMap(listDifferencesOf))],
    unknownKeys: problems
      .filter(({ isUnknownKey, place }) => isUnknownKey && isAt(place, NEW))
      .map(formatProblem),
    errors: problems
      .filter(({ severity, place }) => severity === "error" && isAt(place, NEW))
      .map(formatProblem),
  };
}

function formatProblem({ place, message }: Problem): string {
  return `${formatPlace(place)}: ${message}`;
}

/**
 * Lists a plugin's configuration, and the configurations of plugins that it runs one by
 * one: links of chain, delegates of multus.
 */
function listParts(document: JsonObject): JsonObject[] {
  const { own = [], inner = [] } = Object.groupBy(
    Object.entries(document),
    ([key]) =>
      ["plugins", "delegates"].includes(foldKey(key)) ? "inner" : "own",
  );
  const parts = inner.flatMap(([, value]) => listOf(value));
  return [Object.fromEntries(own), ...parts.flatMap(listParts)];
}

/** Finds the innermost plugin's configuration around a place in a list. */
function findPart(
  plugins: readonly PluginConf[],
  [, index = 0, ...keys]: ConfigPath,
): JsonObject | undefined {
  let part = plugins[Number(index)]?.document;
  let value: unknown = part;
  for (const key of keys) {
    value = (value as Record<PropertyKey, unknown> | undefined)?.[key];
    if (isObject(value) && "type" in value) part = value as JsonObject;
  }
  return part;
}

function listDifferences(type: string, conf: string): string[] {
  return (METADATA.get(type)?.differences ?? []).flatMap(({ uses, text }) => {
    const used = uses === undefined ? "" : uses.exec(conf)?.[0];
    if (used === undefined) return [];
    const about = [type, used].filter((part) => part !== "").join(" ");
    return [`${about}: ${text} (docs/${type}.md)`];
  });
}
