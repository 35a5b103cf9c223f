/**
 * The runtime's side of the protocol: networks as lists of plugins, cached
 * attachments, and the operations on them.
 *
 * Source: containernetworking/cni libcni/api.go.
 *
 * @module
 */

import type { VersionInfo } from "../cni/invoke/version_probe.ts";
import type { AddOptions, AddOrUndoOptions } from "./add.ts";
import {
  AttachmentCache,
  type AttachmentResult,
  type CachedAttachment,
  type CacheListing,
} from "./cache.ts";
import {
  type CachedConfig,
  keyOf,
  type NetworkRuntimeOptions,
  type OperationOptions,
  PluginFailure,
  restoreArgs,
  type RuntimeConf,
  type Tools,
} from "./operation.ts";
import {
  asNetwork,
  listCapabilities,
  type Network,
  type NetworkConf,
  type NetworkConfList,
} from "./conf.ts";
import type { DelOptions } from "./del.ts";
import type { GcOptions } from "./gc.ts";
import type { PluginRepair, RepairOptions } from "./repair.ts";
import { isContainerId } from "../cni/call/args.ts";
import { lockToDetach } from "./lock.ts";
import { omitAbsent } from "../base/json/json.ts";
import { execInvoker } from "../cni/invoke/exec_invoker.ts";
import { createLog } from "../base/log/log.ts";
import { writeStderr } from "../base/process/stdio.ts";
import { OWN_NETNS } from "../cni/call/own_netns.ts";

/** A network as the cache identifies it, with one plugin or a list. */
export type NamedNetwork = Pick<Network, "name" | "cniVersion">;

/**
 * Attaches containers to networks and detaches them by running the plugins of
 * network configurations. Caches attachments on disk in the Go library's
 * format.
 *
 * ```ts ignore
 * const runtime = new NetworkRuntime({ pluginDirs: ["/opt/cni/bin"], env });
 * const list = parseNetworkConfList(bytes);
 * const { result } = await runtime.addNetworkListOrUndo(list, {
 *   containerId: "c1", netns: "/run/netns/c1", ifName: "eth0",
 * }, { signal: AbortSignal.timeout(60_000) });
 * ```
 */
export class NetworkRuntime {
  readonly #tools: Tools;

  /** Creates a runtime with fixed options. Touches nothing yet. */
  constructor(options: NetworkRuntimeOptions) {
    this.#tools = createTools(options);
  }

  /**
   * Attaches a container: runs ADD of each plugin in order, each with the
   * previous plugin's result, and caches the last result.
   *
   * After a failure, DEL must follow; see {@linkcode addNetworkListOrUndo}.
   *
   * @throws {PluginFailure} `plugin type="T" failed (add)`, with the plugin's
   *   error as its cause; nothing is cached
   * @throws {Error} If the cache cannot be written; the container is attached
   */
  async addNetworkList(
    list: NetworkConfList,
    conf: RuntimeConf,
    options: AddOptions = {},
  ): Promise<AttachmentResult> {
    using _lock = await lockContainer(this.#tools, conf, options);
    const { addToNetwork } = await import("./add.ts");
    return await addToNetwork(this.#tools, list, conf, options);
  }

  /**
   * Attaches a container as {@linkcode addNetworkList} does. If that fails,
   * runs DEL of all plugins with a deadline of its own, `undoTimeoutMs`.
   * Failures of DEL are logged; the failure of ADD is thrown.
   *
   * @throws {CniError} 4 If the cache already has this attachment, because DEL
   *   would end it
   */
  async addNetworkListOrUndo(
    list: NetworkConfList,
    conf: RuntimeConf,
    options: AddOrUndoOptions = {},
  ): Promise<AttachmentResult> {
    using _lock = await lockContainer(this.#tools, conf, options);
    const { addToNetworkOrUndo } = await import("./add.ts");
    return await addToNetworkOrUndo(this.#tools, list, conf, options);
  }

  /**
   * Checks that an attachment is as ADD left it: runs CHECK of each plugin in
   * order, each with the cached result.
   *
   * @throws {CheckNotSupportedError} 1 If the configuration is older than 0.4.0
   * @throws {CniError} The error of the first plugin that finds a difference
   */
  async checkNetworkList(
    list: Network & { readonly disableCheck?: boolean },
    conf: RuntimeConf,
    options: OperationOptions = {},
  ): Promise<void> {
    using _lock = await tryLockContainer(this.#tools, conf, options);
    const { checkNetwork } = await import("./check.ts");
    await checkNetwork(this.#tools, list, conf, options);
  }

  /**
   * Makes again what an attachment has lost, such as rules and routes: runs REPAIR
   * of each plugin in order, each with the cached result. A runtime asks each plugin
   * once whether it has REPAIR.
   *
   * @returns What became of each plugin's part
   * @throws {CheckNotSupportedError} 1 If the configuration is older than 0.4.0
   * @throws {CniError} 3 If no result is cached
   */
  async repairNetworkList(
    list: Network,
    conf: RuntimeConf,
    options: RepairOptions = {},
  ): Promise<PluginRepair[]> {
    using _lock = await tryLockContainer(this.#tools, conf, options);
    const { repairNetwork } = await import("./repair.ts");
    return await repairNetwork(this.#tools, list, conf, options);
  }

  /**
   * Detaches a container: runs DEL of each plugin, last to first, each with the
   * cached result, and removes the attachment from the cache. May be repeated.
   *
   * @throws {PluginFailure} `plugin type="T" failed (delete)`, with the
   *   plugin's error as its cause; the attachment is still cached
   */
  async delNetworkList(
    list: Network,
    conf: RuntimeConf,
    options: DelOptions = {},
  ): Promise<void> {
    using _lock = await tryLockContainer(this.#tools, conf, options);
    const { delFromNetwork } = await import("./del.ts");
    await delFromNetwork(this.#tools, list, conf, options);
  }

  /**
   * Removes the remains of attachments that the runtime no longer has: runs DEL
   * for the cached ones, then GC of each plugin in order.
   *
   * @throws The only failure, or an AggregateError of several
   */
  async gcNetworkList(
    list: NetworkConfList,
    options: GcOptions = {},
  ): Promise<void> {
    using _lock = await lockExclusively(this.#tools, options);
    const { collectGarbage } = await import("./gc.ts");
    await collectGarbage(this.#tools, list, options);
  }

  /**
   * Checks that the plugins are ready for ADD.
   *
   * @throws {CniError} The error of the first plugin that is not ready: 50, or
   *   51 if running containers may be affected
   */
  async statusNetworkList(
    list: NetworkConfList,
    options: OperationOptions = {},
  ): Promise<void> {
    const { checkStatus } = await import("./status.ts");
    await checkStatus(this.#tools, list, options);
  }

  /**
   * Checks that the plugins exist and support the configuration's version.
   *
   * @returns The capabilities that they declare, without duplicates
   * @throws {CniError} With all failures in one text, `[first second]`
   */
  async validateNetworkList(
    list: NetworkConfList,
    options: OperationOptions = {},
  ): Promise<string[]> {
    const { validateNetwork } = await import("./validate.ts");
    return await validateNetwork(this.#tools, list, options);
  }

  /** Attaches a container to the network of a bare plugin; throws the plugin's error. */
  async addNetwork(
    network: NetworkConf,
    conf: RuntimeConf,
    options: AddOptions = {},
  ): Promise<AttachmentResult> {
    using _lock = await lockContainer(this.#tools, conf, options);
    const { addToNetwork } = await import("./add.ts");
    return await unwrapFailure(
      addToNetwork(this.#tools, asNetwork(network), conf, options),
    );
  }

  /** Checks an attachment to the network of a bare plugin, as {@linkcode checkNetworkList} does. */
  async checkNetwork(
    network: NetworkConf,
    conf: RuntimeConf,
    options: OperationOptions = {},
  ): Promise<void> {
    using _lock = await tryLockContainer(this.#tools, conf, options);
    const { checkNetwork } = await import("./check.ts");
    await checkNetwork(this.#tools, asNetwork(network), conf, options);
  }

  /** Detaches a container from the network of a bare plugin; throws the plugin's error. */
  async delNetwork(
    network: NetworkConf,
    conf: RuntimeConf,
    options: DelOptions = {},
  ): Promise<void> {
    using _lock = await tryLockContainer(this.#tools, conf, options);
    const { delFromNetwork } = await import("./del.ts");
    await unwrapFailure(
      delFromNetwork(this.#tools, asNetwork(network), conf, options),
    );
  }

  /**
   * Checks that a bare plugin exists and supports its configuration's version.
   *
   * @returns The capabilities that it declares
   * @throws {CniError} If it does not
   */
  async validateNetwork(
    { plugin, cniVersion }: NetworkConf,
    options: OperationOptions = {},
  ): Promise<string[]> {
    const { validatePlugin } = await import("./validate.ts");
    await validatePlugin(this.#tools, plugin.type, cniVersion, options);
    return listCapabilities([plugin]);
  }

  /**
   * Asks a plugin for the versions that it supports.
   *
   * @throws {CniError} The plugin's error, or why it could not be run
   */
  async getVersionInfo(
    type: string,
    options: OperationOptions = {},
  ): Promise<VersionInfo> {
    const { probePlugin } = await import("./validate.ts");
    return await probePlugin(this.#tools, type, options);
  }

  /**
   * Finds the cached result of an attachment, in the configuration's version.
   *
   * @returns Undefined if none is cached
   * @throws {CniError} 1 or 6 If it is not a result, or cannot be converted to
   *   that version
   */
  findCachedResult(
    network: NamedNetwork,
    conf: RuntimeConf,
  ): AttachmentResult | undefined {
    const key = keyOf(network, conf);
    return this.#tools.cache.findResult(key, network.cniVersion);
  }

  /**
   * Finds the input of an attachment's ADD: the configuration, and the
   * arguments, which replace the arguments in `conf`.
   *
   * @returns Undefined if the attachment is not cached
   * @throws {CniError} If the cached document cannot be read
   */
  findCachedConfig(
    network: Pick<NamedNetwork, "name">,
    conf: RuntimeConf,
  ): CachedConfig | undefined {
    const cached = this.#tools.cache.readConfig(keyOf(network, conf));
    return cached && { config: cached.config, conf: restoreArgs(conf, cached) };
  }

  /** Reports whether there is a record of an ADD that has not succeeded. */
  async isRecorded(
    network: Pick<NamedNetwork, "name">,
    conf: RuntimeConf,
  ): Promise<boolean> {
    const { findRecord } = await import("./del.ts");
    using record = await findRecord(this.#tools, network, conf);
    return record !== undefined;
  }

  /** Lists the cached attachments of one container, or of all. */
  listCachedAttachments(containerId?: string): CachedAttachment[] {
    return this.#tools.cache.listAttachments(containerId);
  }

  /**
   * Reads all files of the cache once, for the caller and for
   * {@linkcode gcNetworkList}.
   *
   * @throws {CniError} 5 if the directory cannot be read
   */
  readCache(): CacheListing {
    return this.#tools.cache.readAll();
  }
}

/** A network of one plugin need not say which plugin failed. */
async function unwrapFailure<T>(operation: Promise<T>): Promise<T> {
  try {
    return await operation;
  } catch (error) {
    throw error instanceof PluginFailure ? error.cause : error;
  }
}

/**
 * Waits until no other operation on the container and no GC is running. An
 * invalid container ID needs no lock, because the operation will refuse it.
 *
 * @throws {CniError} 5 If the lock cannot be created, 11 on the signal or after
 *   five minutes
 */
async function lockContainer(
  { locks, log }: Tools,
  { containerId }: RuntimeConf,
  { signal }: OperationOptions,
): Promise<Disposable | undefined> {
  if (!isContainerId(containerId)) return undefined;
  return await locks?.lockContainer(containerId, omitAbsent({ signal, log }));
}

/** Does the same for a tear-down. See {@linkcode lockToDetach}. */
async function tryLockContainer(
  tools: Tools,
  conf: RuntimeConf,
  options: OperationOptions,
): Promise<Disposable | undefined> {
  return await lockToDetach(
    conf.containerId,
    tools.log,
    () => lockContainer(tools, conf, options),
  );
}

/**
 * Waits until no operation on any container is running.
 *
 * @throws {CniError} 5 If the lock cannot be created, 11 on the signal or after
 *   five minutes
 */
async function lockExclusively(
  { locks, log }: Tools,
  { signal }: OperationOptions,
): Promise<Disposable | undefined> {
  return await locks?.lockExclusively(omitAbsent({ signal, log }));
}

/** Fills in defaults. */
export function createTools(options: NetworkRuntimeOptions): Tools {
  const { onStderr = tryWriteStderr } = options;
  return {
    pluginDirs: options.pluginDirs,
    context: {
      env: options.env,
      invoker: options.invoker ?? execInvoker,
      hostNetns: options.hostNetns ?? OWN_NETNS,
      caller: options.caller,
      onStderr,
      keepsLog: options.keepsLog,
      onProcess: options.onProcess,
      linkDeletion: options.linkDeletion,
      yieldDuring: options.yieldDuring,
      onConflict: options.onConflict,
      onAttached: options.onAttached,
      keepsAddresses: options.keepsAddresses,
    },
    cache: new AttachmentCache(options.cacheDir),
    repairers: new Map(),
    recordsSteps: options.recordsSteps ?? false,
    locks: options.locks,
    log: createLog({ component: "libcni" }, onStderr, options.env),
  };
}

/** Ignores failures: logging must never stop an operation. */
function tryWriteStderr(text: string): void {
  writeStderr(text);
}
