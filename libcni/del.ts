/**
 * DEL: detaching a container from a network.
 *
 * @module
 */

import { findImpossible, isNothingToUndo } from "../cni/invoke/find.ts";
import {
  describeError,
  ErrorCode,
  listCauses,
  toCniError,
} from "../base/error.ts";
import { ifPossible, removeQuietly } from "../base/files/io.ts";
import { findValue, type JsonObject } from "../base/json/json.ts";
import { throwAll } from "../base/rollback.ts";
import {
  type AttachedOptions,
  buildRequest,
  dropRecycledNetns,
  hasVersion,
  keyOf,
  type OperationOptions,
  pluginFailure,
  type PluginTools,
  restoreArgs,
  runPlugin,
  type RuntimeConf,
  type Tools,
} from "./operation.ts";
import {
  type Network,
  parseCachedConfig,
  type PluginConf,
  type PluginList,
} from "./conf.ts";
import type { Starter } from "../cni/call/context.ts";
import { ListDeletion } from "../cni/call/link_deletion.ts";
import type { Steps } from "./steps.ts";
import type { StepRecord } from "./step_record.ts";

/** The first configuration version in which DEL gets the result of ADD. */
export const PREV_RESULT_SINCE = "0.4.0";

/** Options of DEL. */
export interface DelOptions extends OperationOptions {
  /**
   * Whether to continue after a plugin that fails or is missing, and throw all
   * failures at the end; see {@linkcode delPlugins}. The Go library stops at the
   * first failure, and the work of the plugins before it in the list remains.
   */
  readonly continueOnDelErrors?: boolean | undefined;
  /**
   * Whether to use the configuration and arguments of ADD from the cache, if
   * present, instead of this call's. The configuration might have changed since ADD,
   * and resources that were created from capability arguments cannot be removed
   * without the arguments. A path that now leads to the runtime's own namespace is
   * omitted.
   */
  readonly useCachedConfig?: boolean | undefined;
  /** The plugins that have something to undo; all if undefined. */
  readonly steps?: Steps | undefined;
}

/**
 * Runs DEL of each plugin, last to first, each with the cached result of ADD,
 * and removes the attachment from the cache. After a failure it stays cached
 * for the next attempt.
 *
 * Source: containernetworking/cni libcni/api.go `DelNetworkList`.
 *
 * @throws {PluginFailure} If a plugin fails
 * @throws {CniError} 6 If the configuration's version cannot be parsed
 */
export async function delFromNetwork(
  tools: Tools,
  network: Network,
  conf: RuntimeConf,
  options: DelOptions,
): Promise<void> {
  const added = options.useCachedConfig
    ? restoreAttachment(tools, network, dropRecycledNetns(tools, conf))
    : { network, conf };
  const prevResult = hasVersion(added.network, PREV_RESULT_SINCE)
    ? tryCachedResult(tools, added.network, added.conf)
    : undefined;
  using record = tools.recordsSteps
    ? await findRecord(tools, network, conf)
    : undefined;
  // An attachment with a result has been added whole, even if ADD was killed before it
  // removed the record.
  const isPartial = prevResult === undefined && record !== undefined;
  await delPlugins(tools, added.network, added.conf, {
    ...isPartial && { steps: record.steps },
    ...options,
    prevResult: prevResult ??
      (hasVersion(added.network, PREV_RESULT_SINCE)
        ? record?.steps.result
        : undefined),
  });
  if (tools.recordsSteps) removeRecord(tools, network, conf);
  forget(tools, network, conf);
}

/**
 * Finds the record of an ADD that did not succeed.
 *
 * @returns Undefined if there is none
 */
export async function findRecord(
  { cache, log }: Pick<Tools, "cache" | "log">,
  network: Pick<Network, "name">,
  conf: RuntimeConf,
): Promise<StepRecord | undefined> {
  const path = ifPossible(() => cache.stepsPathOf(keyOf(network, conf)));
  const { StepRecord } = await import("./step_record.ts");
  return path === undefined ? undefined : StepRecord.find(path, log);
}

/** Removes the record, even one that is damaged, because nothing is left to undo. */
function removeRecord(
  { cache }: Tools,
  network: Network,
  conf: RuntimeConf,
): void {
  const path = ifPossible(() => cache.stepsPathOf(keyOf(network, conf)));
  if (path !== undefined) removeQuietly(path);
}

/**
 * Finds the cached result. An unreadable one, as after a crash, counts as
 * absent, because DEL would otherwise fail forever.
 */
function tryCachedResult(
  { cache, log }: Tools,
  network: Network,
  conf: RuntimeConf,
): JsonObject | undefined {
  try {
    return cache.findResult(keyOf(network, conf), network.cniVersion)
      ?.document;
  } catch (error) {
    log.warn("Deleting without the cached result", {
      network: network.name,
      containerId: conf.containerId,
      ifName: conf.ifName,
      error: describeError(error),
    });
    return undefined;
  }
}

/** Removes the attachment from the cache. A failure is left to GC. */
function forget(
  { cache, log }: Tools,
  network: Network,
  conf: RuntimeConf,
): void {
  try {
    cache.remove(keyOf(network, conf));
  } catch (error) {
    log.warn("Cannot remove an attachment from the cache", {
      network: network.name,
      containerId: conf.containerId,
      ifName: conf.ifName,
      error: describeError(error),
    });
  }
}

/**
 * Returns the input of the ADD that DEL is to undo. If the cache does not have
 * it, returns the input of DEL.
 */
function restoreAttachment(
  { cache, log }: Tools,
  network: Network,
  conf: RuntimeConf,
): { readonly network: Network; readonly conf: RuntimeConf } {
  try {
    const cached = cache.readConfig(keyOf(network, conf));
    if (cached === undefined) return { network, conf };
    return {
      network: parseCachedConfig(cached.config),
      conf: restoreArgs(conf, cached),
    };
  } catch (error) {
    log.warn("Deleting without the cached configuration", {
      network: network.name,
      containerId: conf.containerId,
      ifName: conf.ifName,
      error: describeError(error),
    });
    return { network, conf };
  }
}

/** Options of DEL for several plugins. */
export interface DelPluginsOptions
  extends AttachedOptions, Pick<DelOptions, "continueOnDelErrors" | "steps"> {}

/** Reports that a plugin's DEL was not run, to keep the addresses. */
class AddressesKept extends Error {
  override readonly message =
    "the addresses are kept because the DEL of another plugin has failed";
}

/** Reports whether an error is an AddressesKept, or was caused by it. */
function isAddressesKept(error: unknown): boolean {
  return listCauses(error).some((cause) => cause instanceof AddressesKept);
}

/**
 * Runs DEL of each plugin, last to first. Links whose deletion the plugins deferred
 * are deleted at the end in any case.
 *
 * After a failure, the addresses of the attachment stay allocated, because rules of the
 * failed plugin might still refer to them. This project's plugins run in this process
 * and remove everything except the addresses. A third-party plugin, which would release
 * the addresses, does not run. The next DEL runs all of these plugins again. Without
 * prevResult, a plugin that no ADD can have run is skipped.
 *
 * Source: containernetworking/cni libcni/api.go `DelNetworkList`.
 *
 * @throws {PluginFailure} If a plugin fails
 */
export async function delPlugins(
  tools: PluginTools,
  network: PluginList,
  conf: RuntimeConf,
  { prevResult, continueOnDelErrors = false, signal, steps }: DelPluginsOptions,
): Promise<void> {
  const { capabilityArgs } = conf;
  const linkDeletion = new ListDeletion(tools.context.linkDeletion);
  const failures: Error[] = [];
  // Plugins whose links might not be deleted yet. If this process is killed before
  // that, the record must still contain these plugins.
  let undone: number[] = [];
  const endUndone = (): void => {
    if (linkDeletion.hasLeft) return;
    for (const index of undone) steps?.end(index);
    undone = [];
  };
  const finish = async (): Promise<void> => {
    try {
      await linkDeletion.finish();
      endUndone();
    } catch (error) {
      failures.push(error as Error);
      undone = [];
      steps?.keep();
    }
  };
  const contextOf = (holds: boolean): PluginTools["context"] => ({
    ...tools.context,
    linkDeletion,
    keepsAddresses: failures.length > 0 || tools.context.keepsAddresses,
    onProcess: async (starting): Promise<Starter | void> => {
      await finish();
      if (failures.length > 0 && holds) throw new AddressesKept();
      return await tools.context.onProcess?.(starting);
    },
  });
  for (const [index, plugin] of [...network.plugins.entries()].reverse()) {
    if (steps?.isLeft(index) === false) continue;
    const { type } = plugin;
    const problem = findImpossible(type);
    const isAdded = prevResult !== undefined;
    if (isNothingToUndo({ type, problem, isAdded }, tools.log)) {
      steps?.end(index);
      continue;
    }
    const context = contextOf(holdsAddresses(plugin));
    try {
      await runPlugin({ ...tools, context }, {
        command: "DEL",
        type,
        stdin: buildRequest(network, plugin, { prevResult, capabilityArgs }),
        conf,
        signal,
      });
      // With the addresses kept, it has not undone everything.
      if (!context.keepsAddresses) undone.push(index);
      endUndone();
    } catch (error) {
      if (isAddressesKept(error)) continue;
      if (steps?.isOpen(index) && isRefused(error)) {
        steps.end(index);
        continue;
      }
      failures.push(pluginFailure(plugin, "delete", error));
      // The deletion of links that other plugins had deferred might have failed.
      if (!linkDeletion.hasLeft) undone = [];
      steps?.keep();
      if (!continueOnDelErrors) break;
    }
  }
  await finish();
  throwAll(failures, `${failures.length} plugins failed (delete)`);
}

/** Reports whether DEL of a plugin releases addresses; flannel has its `ipam` there. */
function holdsAddresses({ document }: PluginConf): boolean {
  return ["ipam", "delegate"]
    .some((key) => findValue(document, key) !== undefined);
}

/** Reports whether a plugin refuses the version: it has refused ADD, too. */
function isRefused(error: unknown): boolean {
  return toCniError(error).code === ErrorCode.IncompatibleVersion;
}
