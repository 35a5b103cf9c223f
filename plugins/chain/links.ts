/**
 * What a call of chain is to the plugins in it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import { splitPath } from "../../cni/invoke/find.ts";
import { type JsonObject, type JsonValue, objectOf } from "../../cni/json.ts";
import { decodePluginConfs, type PluginConf } from "../../cni/libcni/conf.ts";
import type { AttachedOptions } from "../../cni/libcni/each_plugin.ts";
import type { PluginList } from "../../cni/libcni/operation.ts";
import { injectConf } from "../../cni/libcni/request.ts";
import type { RuntimeConf } from "../../cni/libcni/runtime_conf.ts";
import type { PluginTools } from "../../cni/libcni/tools.ts";
import type { Call } from "../../cni/plugin.ts";
import type { ChainConfig } from "./config.ts";

/** What the plugins of a chain are run with: what a runtime would run them with. */
export interface Links {
  readonly tools: PluginTools;
  /** The plugins, as the network that they would be by themselves. */
  readonly network: PluginList;
  /** The attachment; GC and STATUS are about none. */
  readonly conf: RuntimeConf;
  /** The result that the runtime handed over, as it is, and when to give up. */
  readonly options: AttachedOptions;
}

/**
 * Reads the plugins' configurations and what they are to be told.
 *
 * @throws {CniError} 7 If a plugin's configuration is none, as the runtime would
 *   have refused it
 */
export function readLinks(call: Call<ChainConfig>): Links {
  const { args, config, network: name, running, log, signal } = call;
  const { cniVersion = "" } = config;
  const { prevResult, runtimeConfig = {} } = asJson(config);
  return {
    tools: { ...running, pluginDirs: splitPath(args.path), log },
    network: { name, cniVersion, plugins: readPlugins(config) },
    conf: {
      containerId: args.containerId,
      netns: args.netns,
      ifName: args.ifName,
      rawArgs: args.args,
      capabilityArgs: runtimeConfig,
    },
    options: { prevResult, signal },
  };
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

/** What is handed on came out of a JSON document and was not looked at since. */
type HandedOn =
  & { readonly plugins: JsonValue[] }
  & {
    readonly [K in "prevResult" | "runtimeConfig" | "args"]?: JsonObject;
  };

function asJson(config: ChainConfig): HandedOn {
  return config as HandedOn;
}

/**
 * Adds to a plugin's `args` what the runtime has added to the chain's, as it
 * would have done with each plugin of a list.
 *
 * Source: multus-cni pkg/types/conf.go `addCNIArgsInConfList`.
 */
function withArgs(conf: PluginConf, args: JsonObject): PluginConf {
  const own = objectOf(conf.document["args"]);
  const cni = { ...objectOf(own["cni"]), ...objectOf(args["cni"]) };
  const merged = { ...own, ...args, ...args["cni"] !== undefined && { cni } };
  return { ...conf, document: injectConf(conf.document, { args: merged }) };
}
