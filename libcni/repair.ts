/**
 * REPAIR: restores what an attachment has lost, such as rules and routes.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../base/error.ts";
import { isObject, parseJson } from "../base/json/json.ts";
import { splitDifferences } from "../cni/call/differences.ts";
import type { RepairReport } from "../cni/call/repair.ts";
import { declaresRepair } from "../cni/invoke/repair.ts";
import { REPAIR, REPAIR_SANDBOX } from "../cni/call/variables.ts";
import { COMMAND_SINCE } from "../cni/version.ts";
import { CheckNotSupportedError, checkPlugins } from "./check.ts";
import type { Network, PluginConf } from "./conf.ts";
import {
  type AttachedOptions,
  buildRequest,
  hasVersion,
  keyOf,
  type OperationOptions,
  runPlugin,
  type RuntimeConf,
  type Tools,
} from "./operation.ts";

/** Options of REPAIR. */
export interface RepairOptions extends OperationOptions {
  /** Whether it also repairs the interface in the container; false by default. */
  readonly sandbox?: boolean;
  /** Whether it only looks, and changes nothing; false by default. */
  readonly dryRun?: boolean;
  /** Receives what became of each plugin's part, also if a later part is not reached. */
  readonly onRepair?: (repair: PluginRepair) => void;
}

/** What became of one plugin's part of an attachment. */
export interface PluginRepair extends RepairReport {
  /** The plugin's `type`. */
  readonly type: string;
  /** Whether the plugin does not declare REPAIR. Its part is checked, and left as it is. */
  readonly isUnsupported: boolean;
}

/**
 * Runs REPAIR of each plugin in order, each with the cached result of ADD. The
 * plugins after one that fails run as well.
 *
 * @throws {CheckNotSupportedError} 1 If the configuration is older than 0.4.0
 * @throws {CniError} 3 If no result is cached
 */
export async function repairNetwork(
  tools: Tools,
  network: Network,
  conf: RuntimeConf,
  { signal, sandbox = false, dryRun = false, onRepair }: RepairOptions,
): Promise<PluginRepair[]> {
  if (!hasVersion(network, COMMAND_SINCE.CHECK)) {
    throw new CheckNotSupportedError(
      ErrorCode.IncompatibleVersion,
      `configuration version "${network.cniVersion}" does not support the CHECK command`,
    );
  }
  const key = keyOf(network, conf);
  const found = tools.cache.findResult(key, network.cniVersion);
  if (found === undefined) {
    throw new CniError(
      ErrorCode.UnknownContainer,
      `Cannot repair an attachment to network "${network.name}": ` +
        "the cache has no result of ADD",
    );
  }
  const env = { ...tools.context.env, [REPAIR_SANDBOX]: sandbox ? "1" : "" };
  const attachment: RepairedAttachment = {
    tools: { ...tools, context: { ...tools.context, env } },
    network,
    conf,
    options: { prevResult: found.document, signal },
  };
  const repairs: PluginRepair[] = [];
  for (const plugin of network.plugins) {
    signal?.throwIfAborted();
    const repair = await (dryRun ? checkOne : repairOne)(attachment, plugin);
    repairs.push(repair);
    onRepair?.(repair);
  }
  return repairs;
}

/** An attachment, and its plugins' input. */
interface RepairedAttachment {
  readonly tools: Tools;
  readonly network: Network;
  readonly conf: RuntimeConf;
  readonly options: AttachedOptions;
}

async function repairOne(
  attachment: RepairedAttachment,
  plugin: PluginConf,
): Promise<PluginRepair> {
  const { tools, network, conf, options } = attachment;
  const { type } = plugin;
  const { prevResult, signal } = options;
  const { capabilityArgs } = conf;
  if (!await hasRepair(tools, type, signal)) {
    return { ...await checkOne(attachment, plugin), isUnsupported: true };
  }
  try {
    const { stdout } = await runPlugin(tools, {
      command: REPAIR,
      type,
      stdin: buildRequest(network, plugin, { prevResult, capabilityArgs }),
      conf,
      signal,
    });
    return { type, isUnsupported: false, ...parseReport(stdout) };
  } catch (error) {
    const remaining = [describeError(error)];
    return { type, isUnsupported: false, repaired: [], remaining };
  }
}

/**
 * Reports whether a plugin has REPAIR; asks it the first time. A question that was
 * ended has no answer.
 */
async function hasRepair(
  { repairers, pluginDirs, context }: Tools,
  type: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const known = repairers.get(type);
  if (known !== undefined) return await known;
  const asked = { ...context, signal };
  const answer = declaresRepair(type, pluginDirs.join(":"), asked);
  repairers.set(type, answer);
  answer.catch(() => repairers.delete(type));
  return await answer;
}

/** Runs CHECK, of which everything remains. */
async function checkOne(
  { tools, network, conf, options }: RepairedAttachment,
  plugin: PluginConf,
): Promise<PluginRepair> {
  const { type } = plugin;
  const nothing = { type, isUnsupported: false, repaired: [] };
  try {
    await checkPlugins(tools, { ...network, plugins: [plugin] }, conf, options);
    return { ...nothing, remaining: [] };
  } catch (error) {
    const remaining = splitDifferences(error).map(({ msg }) => msg);
    return { ...nothing, remaining };
  }
}

/** @throws {CniError} 6 if the answer is no report */
function parseReport(stdout: string): RepairReport {
  const document = parseJson(stdout, "answer");
  const { repaired, remaining, error } = isObject(document) ? document : {};
  if (!Array.isArray(repaired) || !Array.isArray(remaining)) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      "Cannot decode answer: it lists neither what is repaired nor what remains",
    );
  }
  return {
    repaired: repaired.map(String),
    remaining: remaining.map(String),
    ...typeof error === "string" && { error },
  };
}
