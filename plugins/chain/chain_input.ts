/**
 * Translates a call of chain into calls of its plugins.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { splitPath } from "../../cni/invoke/find.ts";
import {
  findValue,
  type JsonObject,
  type JsonValue,
  objectOf,
} from "../../base/json/json.ts";
import {
  decodePluginConfs,
  injectConf,
  type PluginConf,
  type PluginList,
} from "../../libcni/conf.ts";
import type {
  AttachedOptions,
  PluginTools,
  RuntimeConf,
} from "../../libcni/operation.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Recorded } from "./record.ts";
import type { ChainConfig } from "./schema.ts";

/** The input of a chain's plugins, as a runtime would provide it. */
export interface ChainInput {
  readonly tools: PluginTools;
  /** The plugins, as a separate network. */
  readonly network: PluginList;
  /** The attachment; empty for GC and STATUS. */
  readonly conf: RuntimeConf;
  /** The runtime's prevResult, unchanged, and the time limit. */
  readonly options: AttachedOptions;
  /** The attachment, for its record. */
  readonly recorded: Recorded;
}

/**
 * Reads the plugins' configurations and their input.
 *
 * @param directory The directory of the records; the default if undefined
 * @throws {CniError} 7 if the chain has no plugins, or a plugin's configuration is
 * invalid; a runtime would have reported the same error
 */
export function readInput(
  call: Call<ChainConfig>,
  directory?: string,
): ChainInput {
  const { args, config, network: name, context, log, signal } = call;
  const { cniVersion = "" } = config;
  const { prevResult, runtimeConfig = {} } = asJson(config);
  const plugins = readPlugins(config);
  const { stdin } = call;
  return {
    tools: { context, pluginDirs: splitPath(args.path), log },
    network: { name, cniVersion, plugins },
    conf: {
      containerId: args.containerId,
      netns: args.netns,
      ifName: args.ifName,
      rawArgs: args.args,
      capabilityArgs: runtimeConfig,
    },
    options: { prevResult, signal },
    recorded: { network: name, args, stdin, log, signal, plugins, directory },
  };
}

/**
 * Returns the reason why no ADD can have run a chain; undefined if an ADD might have.
 */
export function findProblem(config: ChainConfig): string | undefined {
  try {
    readPlugins(config);
    return undefined;
  } catch (error) {
    return describeError(error);
  }
}

function readPlugins(config: ChainConfig): PluginConf[] {
  const { plugins, args } = asJson(config);
  if (plugins.length === 0) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "Cannot run a chain: it has no plugins",
    );
  }
  const confs = decodePluginConfs(plugins);
  return args === undefined ? confs : confs.map((conf) => withArgs(conf, args));
}

/** Values passed on from a JSON document, without validation. */
type HandedOn =
  & { readonly plugins: JsonValue[] }
  & {
    readonly [K in "prevResult" | "runtimeConfig" | "args"]?: JsonObject;
  };

function asJson(config: ChainConfig): HandedOn {
  return config as HandedOn;
}

/**
 * Adds the runtime's `args` for the chain to a plugin's `args`, like a runtime does
 * for each plugin in a list.
 *
 * Source: multus-cni pkg/types/conf.go `addCNIArgsInConfList`.
 */
function withArgs(conf: PluginConf, args: JsonObject): PluginConf {
  const own = objectOf(findValue(conf.document, "args"));
  const cni = { ...objectOf(own["cni"]), ...objectOf(args["cni"]) };
  const merged = { ...own, ...args, ...args["cni"] !== undefined && { cni } };
  return { ...conf, document: injectConf(conf.document, { args: merged }) };
}
