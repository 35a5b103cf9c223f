/**
 * The plugins' own verdict on a configuration.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { CniError, ErrorCode, type ErrorObject } from "../../base/error.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import {
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../base/json/json.ts";
import type {
  NetworkConfList,
  NetworkRuntime,
  PluginConf,
} from "../../libcni/mod.ts";
import { encodeJson } from "../../base/json/json_bytes.ts";
import { dispatch } from "../../cni/skel.ts";
import { CURRENT_VERSION } from "../../cni/version.ts";
import {
  findPlugin,
  findVersions,
  pluginNames,
  programNames,
} from "../../plugins/registry.ts";
import {
  formatFailureText,
  hintAtRoot,
} from "../../base/command_line/failure.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  findMissing,
  findNameless,
  findOwnPlugin,
} from "../node/plugin_file.ts";
import { advise } from "./advice.ts";
import type { CheckedPlugin } from "./keys.ts";
import {
  type ConfigPath,
  errorAt,
  type Problem,
  warningAt,
} from "../../metadata/problem.ts";
import { ipamOf, ipamTypeOf } from "../../cni/config/ipam.ts";

/** The tools to validate a network. */
export interface Validator {
  readonly runtime: NetworkRuntime;
  readonly pluginDirs: readonly string[];
  readonly env: Environment;
  readonly signal: AbortSignal;
}

/** Without any plugin directory, plugins cannot be missing. */
export async function checkExecutables(
  { cniVersion, name, bytes }: NetworkConfList,
  { conf, place: path, own, ipam: ipamSchema }: CheckedPlugin,
  { runtime, pluginDirs, signal }: Validator,
): Promise<Problem[]> {
  const ipamType = ipamTypeOf(conf.document);
  const unsupported = own === undefined
    ? []
    : checkSupport(conf.type, cniVersion, path);
  const unsupportedIpam = ipamSchema === undefined || !ipamType ||
      unsupported.length > 0
    ? []
    : checkSupport(ipamType, cniVersion, [...path, "ipam", "type"]);
  if (!pluginDirs.some(hasFiles)) {
    return [
      ...unsupportedIpam,
      ...checkKnown(conf.type, [...path, "type"]),
      ...ipamType ? checkKnown(ipamType, [...path, "ipam", "type"]) : [],
      ...unsupported,
    ];
  }
  const ipam = ipamType && findMissing(ipamType, pluginDirs);
  const missing = findMissing(conf.type, pluginDirs);
  const problems = ipam
    ? [errorAt([...path, "ipam", "type"], ipam)]
    : unsupportedIpam;
  if (missing) return [errorAt([...path, "type"], missing), ...problems];
  for (
    const [type, place] of [
      [conf.type, [...path, "type"]],
      [ipamType ?? "", [...path, "ipam", "type"]],
    ] as const
  ) {
    const nameless = await findNameless(type, pluginDirs);
    if (nameless) problems.push(errorAt(place, formatFailureText(nameless)));
  }
  try {
    const network = { plugin: conf, cniVersion, name, bytes };
    await runtime.validateNetwork(network, { signal });
    return problems;
  } catch (error) {
    // The plugin has then not checked the configuration.
    if (signal.aborted) throw error;
    return [errorAt(path, formatFailureText(error)), ...problems];
  }
}

/**
 * Runs STATUS of a plugin and its IPAM plugin, if both are this project's, to
 * find values that do not fit together. Whether the node is ready only
 * matters if the configuration names the files.
 */
export async function askForErrors(
  list: NetworkConfList,
  { conf, place, own, ipam, metadata, ipamMetadata }: CheckedPlugin,
  validator: Validator,
): Promise<Problem[]> {
  const ipamType = ipamTypeOf(conf.document) ?? "";
  const areOurs = own !== undefined &&
    (ipamType === "" || ipam !== undefined);
  if (!areOurs || metadata?.hasDeepStatus) return [];
  const types: [type: string, place: ConfigPath][] = [[conf.type, place]];
  if (ipam !== undefined && !ipamMetadata?.hasDeepStatus) {
    types.unshift([ipamType, [...place, "ipam"]]);
  }
  for (const [type, at] of types) {
    const failure = await askStatus(type, { list, conf }, validator);
    if (failure === undefined) continue;
    const { code, message } = failure;
    const value = at === place ? conf.document : ipamOf(conf.document);
    const named = findNamed(message, value);
    // The plugin would report the same as its IPAM plugin.
    if (code === ErrorCode.InvalidNetworkConfig) {
      return [errorAt([...at, ...named], advise(message, named, value))];
    }
    const isFile = NODE_FILES.includes(String(named[0])) &&
      validator.pluginDirs.some(hasFiles);
    // A permission that this user lacks says nothing about root, who runs plugins.
    if (isFile && type === ipamType && hintAtRoot(failure) === "") {
      return [
        warningAt([...at, ...named], `on this node: ${message}`, "node-file"),
      ];
    }
  }
  return [];
}

/** Runs STATUS of a plugin of this project, even if it is not installed. */
async function askStatus(
  type: string,
  { list, conf }: {
    readonly list: NetworkConfList;
    readonly conf: PluginConf;
  },
  { signal, pluginDirs }: Validator,
): Promise<CniError | undefined> {
  const plugin = await findOwnPlugin(type, pluginDirs);
  if (plugin === undefined) return undefined;
  const document = {
    ...conf.document,
    name: list.name,
    // Older versions have no STATUS, and the plugins support all versions.
    cniVersion: CURRENT_VERSION,
  };
  const { stdout, exitCode } = await dispatch(plugin, {
    // IPAM plugins are queried separately.
    env: { CNI_COMMAND: "STATUS", CNI_PATH: "/dev/null" },
    invoker: createInvoker(dispatch, findPlugin),
    hostNetns: "/proc/self/ns/net",
    stdin: () => encodeJson(document),
    signal,
  });
  if (exitCode === 0) return undefined;
  const { code, msg, details = "" } = parseJson(stdout) as JsonValue as
    & JsonObject
    & ErrorObject;
  return new CniError(code, msg, { details });
}

/** Keys of IPAM plugins that name files of the node. */
const NODE_FILES = ["dataDir", "resolvConf"];

/** Notes that no directory contains plugins, so that no plugin was queried. */
export function noteNoPlugins(
  pluginDirs: readonly string[],
): string | undefined {
  if (pluginDirs.some(hasFiles)) return undefined;
  return `There are no plugins in "${pluginDirs.join(":")}"`;
}

/** Reports whether a directory might contain plugins. */
function hasFiles(directory: string): boolean {
  return ifPossible(() => [...Deno.readDirSync(directory)].length > 0) === true;
}

/** Warns of a type that resembles the name of a plugin of this project. */
function checkKnown(type: string, place: ConfigPath): Problem[] {
  const hint = didYouMean(type, [...pluginNames, ...programNames]);
  return hint === ""
    ? []
    : [warningAt(place, `unknown plugin "${type}"${hint}`, "unknown-plugin")];
}

function checkSupport(
  type: string,
  cniVersion: string,
  place: ConfigPath,
): Problem[] {
  const isSupported = cniVersion === "" ||
    findVersions(type)?.includes(cniVersion) !== false;
  return isSupported ? [] : [
    errorAt(
      place,
      `plugin ${type} does not support config version "${cniVersion}"`,
    ),
  ];
}

/** Finds the value or key that a plugin's message names; the object itself if none. */
function findNamed(message: string, value: JsonObject): ConfigPath {
  const words = message.split(/[\s"'(),;:]+(?!\S)|[\s"'(),;]+/);
  const { type: _, ...others } = value;
  const places = listPlaces(others, []);
  const values = places.filter(({ value }) =>
    (typeof value !== "object" || value === null) &&
    words.some((word) => word === String(value) || word.startsWith(`${value}/`))
  );
  if (values.length === 1) return values[0]?.place ?? [];
  for (const word of words) {
    const keys = places.filter(({ place }) => isNamedBy(word, place.at(-1)));
    if (keys.length === 1) return keys[0]?.place ?? [];
  }
  return [];
}

/** Reports whether a word is a key, rather than a word of the sentence. */
function isNamedBy(word: string, key: PropertyKey | undefined): boolean {
  return typeof key === "string" && /[a-z][A-Z]|[./]/.test(key) &&
    word.replaceAll("/", ".").toLowerCase() ===
      key.replaceAll("/", ".").toLowerCase();
}

function listPlaces(
  value: JsonValue,
  place: ConfigPath,
): { readonly place: ConfigPath; readonly value: JsonValue }[] {
  if (typeof value !== "object" || value === null) return [{ place, value }];
  const inner = Object.entries(value).flatMap(([key, item]) =>
    listPlaces(item, [...place, Array.isArray(value) ? Number(key) : key])
  );
  return [{ place, value }, ...inner];
}
