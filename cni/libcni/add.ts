/**
 * ADD: attaching a container to a network, plugin by plugin.
 *
 * @module
 */

import {
  checkContainerId,
  checkInterfaceName,
  checkNetworkName,
} from "../args.ts";
import { CniError, ErrorCode, toCniError } from "../error.ts";
import type { JsonObject } from "../json.ts";
import { deadline } from "../invoke/deadline.ts";
import { readPluginResult } from "../invoke/plugin_result.ts";
import { Rollback } from "../rollback.ts";
import { type AttachmentResult, toPrevResult } from "./attachment_result.ts";
import type { PluginConf } from "./conf.ts";
import { delFromNetwork } from "./del.ts";
import {
  type Network,
  type OperationOptions,
  pathOf,
  pluginFailure,
  runPlugin,
} from "./operation.ts";
import { buildRequest } from "./request.ts";
import { describeAttachment, keyOf, type RuntimeConf } from "./runtime_conf.ts";
import type { Tools } from "./tools.ts";

/**
 * Runs ADD of each plugin in order, each with the result of the one before, and
 * caches the last result. What a failure leaves is for DEL.
 *
 * Source: containernetworking/cni libcni/api.go `AddNetworkList`.
 *
 * @throws {PluginFailure} If a plugin fails; nothing is cached
 * @throws {Error} If the cache cannot be written; the container is attached
 */
export async function addToNetwork(
  tools: Tools,
  network: Network,
  conf: RuntimeConf,
  options: OperationOptions,
): Promise<AttachmentResult> {
  let last: AttachmentResult | undefined;
  for (const plugin of network.plugins) {
    const prevResult = last &&
      toPrevResult(last, network.cniVersion, tools.log);
    const add = { network, plugin, conf, prevResult };
    try {
      last = await addPlugin(tools, add, options);
    } catch (error) {
      throw pluginFailure(plugin, "add", error);
    }
  }
  if (last === undefined) throw noPlugins(network);
  keepResult(tools, network, conf, last.document);
  return last;
}

function noPlugins({ name }: Network): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot attach to network ${JSON.stringify(name)}: it has no plugins`,
  );
}

/** One plugin's part in an ADD. */
interface PluginAdd {
  readonly network: Network;
  readonly plugin: PluginConf;
  readonly conf: RuntimeConf;
  readonly prevResult: JsonObject | undefined;
}

async function addPlugin(
  tools: Tools,
  { network, plugin, conf, prevResult }: PluginAdd,
  { signal }: OperationOptions,
): Promise<AttachmentResult> {
  const { capabilityArgs } = conf;
  // To the Go library a missing plugin comes before a malformed name.
  pathOf(plugin.type, tools);
  checkNames(network, conf);
  const output = await runPlugin(tools, {
    command: "ADD",
    type: plugin.type,
    stdin: buildRequest(network, plugin, { prevResult, capabilityArgs }),
    conf,
    signal,
  });
  return readPluginResult(output, network.cniVersion);
}

/** @throws {CniError} 3, 4 or 7 If a name is missing or malformed */
function checkNames(network: Network, conf: RuntimeConf): void {
  checkContainerId(conf.containerId);
  checkNetworkName(network.name);
  checkInterfaceName(conf.ifName);
}

function keepResult(
  { cache }: Tools,
  network: Network,
  conf: RuntimeConf,
  result: JsonObject,
): void {
  try {
    cache.writeAttachment(describeAttachment(network, conf), result);
  } catch (cause) {
    const name = JSON.stringify(network.name);
    throw new Error(`failed to set network ${name} cached result`, { cause });
  }
}

/** How long the DEL after a failed ADD may take, in milliseconds. */
const UNDO_TIMEOUT_MS = 30_000;

/** When to give up, and when to give up undoing. */
export interface AddOrUndoOptions extends OperationOptions {
  /** How long the DEL after a failed ADD may take, in milliseconds; 30 s by default. */
  readonly undoTimeoutMs?: number;
}

/**
 * Runs ADD as {@linkcode addToNetwork} does and, if it fails, DEL of all
 * plugins, with a deadline of its own: that of ADD may be what was missed. What
 * fails in the DEL is logged.
 *
 * An attachment that is there already is refused, because DEL would end it.
 *
 * @throws {CniError} 3, 4 or 7 If a name is missing or malformed; 4 if the cache
 *   has this very attachment
 */
export async function addToNetworkOrUndo(
  tools: Tools,
  network: Network,
  conf: RuntimeConf,
  { signal, undoTimeoutMs = UNDO_TIMEOUT_MS }: AddOrUndoOptions,
): Promise<AttachmentResult> {
  checkNames(network, conf);
  if (isAttached(tools, network, conf)) throw attached(network, conf);
  await using rollback = new Rollback(tools.log);
  rollback.onFailure("undo ADD", () =>
    delFromNetwork(tools, network, conf, {
      // A plugin that cannot be found would keep those before it from undoing.
      continueOnDelErrors: true,
      signal: deadline(undoTimeoutMs),
    }));
  const result = await addToNetwork(tools, network, conf, { signal });
  rollback.commit();
  return result;
}

/** A file that cannot be read may be that of an attachment, so it is taken for one. */
function isAttached(
  { cache }: Tools,
  network: Network,
  conf: RuntimeConf,
): boolean {
  try {
    return cache.readConfig(keyOf(network, conf)) !== undefined;
  } catch (error) {
    return toCniError(error).code === ErrorCode.DecodingFailure;
  }
}

function attached(
  { name }: Network,
  { containerId, ifName }: RuntimeConf,
): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot attach container "${containerId}" to network "${name}" as "${ifName}": ` +
      "CNI_CONTAINERID and CNI_IFNAME are those of an attachment that exists; " +
      "delete that first",
  );
}
