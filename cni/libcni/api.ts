/**
 * The runtime's side of the protocol: networks that are lists of plugins,
 * attachments that are remembered, and the operations between them.
 *
 * Source: containernetworking/cni libcni/api.go.
 *
 * @module
 */

import type { VersionInfo } from "../invoke/version_probe.ts";
import type { AddOrUndoOptions } from "./add.ts";
import {
  type AttachmentResult,
  findCachedResult,
} from "./attachment_result.ts";
import type { CachedAttachment } from "./cache.ts";
import {
  asNetwork,
  type CachedConfig,
  findCachedConfig,
} from "./cached_config.ts";
import {
  listCapabilities,
  type NetworkConf,
  type NetworkConfList,
} from "./conf.ts";
import type { DelOptions } from "./del.ts";
import type { GcOptions } from "./gc.ts";
import {
  type Network,
  type OperationOptions,
  PluginFailure,
} from "./operation.ts";
import type { RuntimeConf } from "./runtime_conf.ts";
import {
  lockContainer,
  lockExclusively,
  tryLockContainer,
} from "./operation_locks.ts";
import {
  createTools,
  type NetworkRuntimeOptions,
  type Tools,
} from "./tools.ts";

/** A network of one plugin or of a list of them, as the cache knows it. */
export type NamedNetwork = Pick<Network, "name" | "cniVersion">;

/**
 * Attaches containers to networks and detaches them, by running the plugins of
 * network configurations, and remembers what it did on disk, in the format of
 * the Go library.
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

  /** Starts with what the runtime decides once; nothing is touched yet. */
  constructor(options: NetworkRuntimeOptions) {
    this.#tools = createTools(options);
  }

  /**
   * Attaches a container: runs ADD of each plugin in order, each with the result
   * of the one before, and caches the last result.
   *
   * What a failure leaves is for DEL; see {@linkcode addNetworkListOrUndo}.
   *
   * @throws {PluginFailure} `plugin type="T" failed (add)`, its cause being the
   *   plugin's error; nothing is cached
   * @throws {Error} If the cache cannot be written; the container is attached
   */
  async addNetworkList(
    list: NetworkConfList,
    conf: RuntimeConf,
    options: OperationOptions = {},
  ): Promise<AttachmentResult> {
    using _lock = await lockContainer(this.#tools, conf, options);
    const { addToNetwork } = await import("./add.ts");
    return await addToNetwork(this.#tools, list, conf, options);
  }

  /**
   * Attaches a container as {@linkcode addNetworkList} does and, if that fails,
   * runs DEL of all plugins, with a deadline of its own, `undoTimeoutMs`. What
   * fails in the DEL is logged; the failure of ADD is thrown.
   *
   * @throws {CniError} 4 If the cache has this very attachment: DEL would end it
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
   * @throws {CniError} What the first plugin throws that finds something wrong
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
   * Detaches a container: runs DEL of each plugin, last to first, each with the
   * cached result, and forgets the attachment. It may be repeated.
   *
   * @throws {PluginFailure} `plugin type="T" failed (delete)`, its cause being the
   *   plugin's error; the attachment is still cached
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
   * Removes what is left of attachments that the runtime no longer has: runs DEL
   * for those that are cached, then GC of each plugin in order.
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
   * Checks that the plugins could serve ADD.
   *
   * @throws {CniError} The first one's that cannot: 50, or 51 if containers that
   *   are attached already may suffer
   */
  async statusNetworkList(
    list: NetworkConfList,
    options: OperationOptions = {},
  ): Promise<void> {
    const { checkStatus } = await import("./status.ts");
    await checkStatus(this.#tools, list, options);
  }

  /**
   * Checks that the plugins are there and serve the configuration's version.
   *
   * @returns The capabilities that they want of the runtime, each once
   * @throws {CniError} With all failures in one text, `[first second]`
   */
  async validateNetworkList(
    list: NetworkConfList,
    options: OperationOptions = {},
  ): Promise<string[]> {
    const { validateNetwork } = await import("./validate.ts");
    return await validateNetwork(this.#tools, list, options);
  }

  /** Attaches a container to a bare plugin's network; throws the plugin's error. */
  async addNetwork(
    network: NetworkConf,
    conf: RuntimeConf,
    options: OperationOptions = {},
  ): Promise<AttachmentResult> {
    using _lock = await lockContainer(this.#tools, conf, options);
    const { addToNetwork } = await import("./add.ts");
    return await unwrapFailure(
      addToNetwork(this.#tools, asNetwork(network), conf, options),
    );
  }

  /** Checks an attachment to a bare plugin's network, as {@linkcode checkNetworkList} does. */
  async checkNetwork(
    network: NetworkConf,
    conf: RuntimeConf,
    options: OperationOptions = {},
  ): Promise<void> {
    using _lock = await tryLockContainer(this.#tools, conf, options);
    const { checkNetwork } = await import("./check.ts");
    await checkNetwork(this.#tools, asNetwork(network), conf, options);
  }

  /** Detaches a container from a bare plugin's network; throws the plugin's error. */
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
   * Checks that a bare plugin is there and serves its configuration's version.
   *
   * @returns The capabilities that it wants of the runtime
   * @throws {CniError} If not
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
   * Asks a plugin for the versions that it serves.
   *
   * @throws {CniError} The plugin's own, or why it could not be asked
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
   * @returns Nothing if none is cached
   * @throws {CniError} 1 or 6 If it is no result, or cannot be had in that version
   */
  findCachedResult(
    network: NamedNetwork,
    conf: RuntimeConf,
  ): AttachmentResult | undefined {
    return findCachedResult(this.#tools.cache, network, conf);
  }

  /**
   * Finds what ADD of an attachment was given: the configuration, and the
   * arguments in place of those of `conf`.
   *
   * @returns Nothing if the attachment is not cached
   * @throws {CniError} If what is cached cannot be read
   */
  findCachedConfig(
    network: Pick<NamedNetwork, "name">,
    conf: RuntimeConf,
  ): CachedConfig | undefined {
    return findCachedConfig(this.#tools.cache, network, conf);
  }

  /** Lists what is cached of one container, or of all. */
  listCachedAttachments(containerId?: string): CachedAttachment[] {
    return this.#tools.cache.listAttachments(containerId);
  }
}

/** A network of one plugin does not say which plugin failed. */
async function unwrapFailure<T>(operation: Promise<T>): Promise<T> {
  try {
    return await operation;
  } catch (error) {
    throw error instanceof PluginFailure ? error.cause : error;
  }
}
