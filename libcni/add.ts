/**
 * ADD: attaching a container to a network, plugin by plugin.
 *
 * @module
 */

import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../base/error.ts";
import { ifPossible } from "../base/files/io.ts";
import type { JsonObject } from "../base/json/json.ts";
import { deadline } from "../base/deadline.ts";
import type { AttachmentResult } from "./cache.ts";
import {
  buildRequest,
  describeAttachment,
  keyOf,
  type OperationOptions,
  pathOf,
  pluginFailure,
  type PluginTools,
  runPlugin,
  type RuntimeConf,
  type Tools,
} from "./operation.ts";
import type { Network, PluginConf, PluginList } from "./conf.ts";
import {
  checkContainerId,
  checkInterfaceName,
  checkNetworkName,
} from "../cni/call/args.ts";
import { readPluginResult } from "../cni/invoke/plugin_result.ts";
import type { Log } from "../base/log/log.ts";
import { Rollback, UNDO_MS } from "../base/rollback.ts";
import { PluginNotStarted } from "../cni/invoke/find.ts";
import { encodeResult } from "../cni/result/encoding.ts";
import { haveSameShape } from "../cni/result/versions.ts";
import { Steps } from "./steps.ts";
import type { StepRecord } from "./step_record.ts";

/** Options of ADD. */
export interface AddOptions extends OperationOptions {
  /** Notes each plugin before it runs. */
  readonly steps?: Steps | undefined;
}

/**
 * Runs ADD of each plugin in order, each with the previous plugin's result, and
 * caches the last result. After a failure the caller must run DEL.
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
  { signal, steps }: AddOptions,
): Promise<AttachmentResult> {
  using record = steps ? undefined : await beginRecord(tools, network, conf);
  const added = await addPlugins(tools, network, conf, {
    signal,
    steps: steps ?? record?.steps,
  });
  keepResult(tools, network, conf, added.document);
  record?.remove();
  return added;
}

/** Begins the record of an ADD, if the runtime records steps and the names are valid. */
async function beginRecord(
  { cache, log, recordsSteps }: Tools,
  network: Network,
  conf: RuntimeConf,
): Promise<StepRecord | undefined> {
  if (!recordsSteps) return undefined;
  const path = ifPossible(() => cache.stepsPathOf(keyOf(network, conf)));
  const { StepRecord } = await import("./step_record.ts");
  return path === undefined ? undefined : StepRecord.begin(path, log);
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

/** Deadlines of an ADD and of its cleanup. */
export interface AddOrUndoOptions extends OperationOptions {
  /** Time limit of the DEL after a failed ADD, in milliseconds; 30 s by default. */
  readonly undoTimeoutMs?: number;
}

/**
 * Runs ADD as {@linkcode addToNetwork} does. If it fails, runs DEL of the plugins
 * that began, with a deadline of its own, because ADD's deadline might have passed.
 * Failures of DEL are logged.
 *
 * Refuses an attachment that already exists, because DEL would detach it.
 *
 * @throws {CniError} 3, 4 or 7 If a name is missing or malformed; 4 if the
 *   cache already has this attachment
 */
export async function addToNetworkOrUndo(
  tools: Tools,
  network: Network,
  conf: RuntimeConf,
  { signal, undoTimeoutMs = UNDO_MS }: AddOrUndoOptions,
): Promise<AttachmentResult> {
  checkNames(network, conf);
  if (isAttached(tools, network, conf)) throw attached(network, conf);
  await using rollback = new Rollback(tools.log);
  const steps = new Steps();
  rollback.onFailure("undo ADD", async () => {
    const { delFromNetwork } = await import("./del.ts");
    await delFromNetwork(tools, network, conf, {
      continueOnDelErrors: true,
      signal: deadline(undoTimeoutMs),
      steps,
    });
  });
  const result = await addToNetwork(tools, network, conf, { signal, steps });
  rollback.commit();
  return result;
}

/** Reports whether the attachment is cached, or a cache file that might describe it is unreadable. */
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
      "CNI_CONTAINERID and CNI_IFNAME belong to an existing attachment; " +
      "delete it first",
  );
}

/** The starting point of an ADD of several plugins. */
export interface AddPluginsOptions extends AddOptions {
  /** The prevResult of the first plugin; undefined if no plugin ran before it. */
  readonly prevResult?: JsonObject | undefined;
}

/**
 * Runs ADD of each plugin in order. After a failure the caller must run DEL.
 *
 * Source: containernetworking/cni libcni/api.go `AddNetworkList`.
 *
 * @returns The last plugin's result
 * @throws {PluginFailure} If a plugin fails
 * @throws {CniError} 7 If the list has no plugins
 */
export async function addPlugins(
  tools: PluginTools,
  network: PluginList,
  conf: RuntimeConf,
  { prevResult: first, signal, steps }: AddPluginsOptions,
): Promise<AttachmentResult> {
  let last: AttachmentResult | undefined;
  for (const [index, plugin] of network.plugins.entries()) {
    const prevResult = last === undefined
      ? first
      : toPrevResult(last, network.cniVersion, tools.log);
    // An earlier ADD of the attachment may have begun it.
    const wasLeft = steps?.isLeft(index);
    const onBegin = (): void => steps?.begin(index, last && prevResult);
    const add = { network, plugin, conf, prevResult, onBegin };
    try {
      last = await addPlugin(tools, add, { signal });
    } catch (error) {
      if (error instanceof PluginNotStarted && !wasLeft) steps?.end(index);
      throw pluginFailure(plugin, "add", error);
    }
  }
  if (last === undefined) throw noPlugins(network);
  return last;
}

function noPlugins({ name }: PluginList): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot attach to network ${JSON.stringify(name)}: it has no plugins`,
  );
}

/** One plugin's step of an ADD. */
interface PluginAdd {
  readonly network: PluginList;
  readonly plugin: PluginConf;
  readonly conf: RuntimeConf;
  readonly prevResult: JsonObject | undefined;
  /** Called before the plugin runs. */
  readonly onBegin: () => void;
}

async function addPlugin(
  tools: PluginTools,
  { network, plugin, conf, prevResult, onBegin }: PluginAdd,
  { signal }: OperationOptions,
): Promise<AttachmentResult> {
  const { capabilityArgs } = conf;
  const { type } = plugin;
  let stdin: Uint8Array;
  try {
    checkNames(network, conf);
    stdin = buildRequest(network, plugin, { prevResult, capabilityArgs });
  } catch (error) {
    // The Go library reports a missing plugin before a malformed name.
    pathOf(type, tools);
    throw error;
  }
  const run = { command: "ADD", type, stdin, conf, signal } as const;
  onBegin();
  const output = await runPlugin(tools, run);
  return readPluginResult(output, network.cniVersion);
}

/**
 * Checks the names that an ADD uses.
 *
 * @throws {CniError} 3, 4 or 7 If a name is missing or malformed
 */
function checkNames(
  network: Pick<PluginList, "name">,
  conf: RuntimeConf,
): void {
  checkContainerId(conf.containerId);
  checkNetworkName(network.name);
  checkInterfaceName(conf.ifName);
}

/**
 * Returns a result for the next plugin of a list. If the plugin printed the
 * shape of another version than requested, the result is converted to the
 * list's version. The Go library passes such a result on, and the next plugin
 * fails.
 */
export function toPrevResult(
  { document, result }: AttachmentResult,
  cniVersion: string,
  log: Log,
): JsonObject {
  const from = String(document["cniVersion"]);
  if (haveSameShape(from, cniVersion)) return document;
  const versions = { from, to: cniVersion };
  try {
    const converted = encodeResult(result, cniVersion);
    log.info("Converted a result for the next plugin", versions);
    return converted;
  } catch (cause) {
    const error = describeError(cause);
    log.warn("Cannot convert a result for the next plugin", {
      ...versions,
      error,
    });
    return document;
  }
}
