/**
 * The runtime's side of CNI: loads network configurations, runs their plugins
 * and caches attachments.
 *
 * @module
 */

export type { VersionInfo } from "../cni/invoke/version_probe.ts";
export { type NamedNetwork, NetworkRuntime } from "./api.ts";
export type { AddOrUndoOptions } from "./add.ts";
export type { AttachmentResult } from "./attachment_result.ts";
export {
  type Attachment,
  AttachmentCache,
  type AttachmentKey,
  type CachedAttachment,
  type CachedRequest,
  DEFAULT_CACHE_DIR,
} from "./cache.ts";
export type { CachedConfig } from "./cached_config.ts";
export type { CachedDocument } from "./cache_file.ts";
export { CheckNotSupportedError } from "./check.ts";
export {
  appendPlugins,
  type NetworkConf,
  type NetworkConfList,
  parseNetworkConf,
  parseNetworkConfList,
  type PluginConf,
  toNetworkConfList,
} from "./conf.ts";
export {
  findDefaultNetwork,
  findNetworkConf,
  findNetworkConfList,
  type FoundNetwork,
  listConfFiles,
  NetworkNotFoundError,
  NoConfigsFoundError,
  readNetworkConf,
  readNetworkConfList,
  readNetworks,
} from "./conf_files.ts";
export type { DelOptions } from "./del.ts";
export type { GcOptions } from "./gc.ts";
export { AttachmentLocks, lockDirectoryOf, type LockOptions } from "./lock.ts";
export {
  type Network,
  type OperationOptions,
  PluginFailure,
} from "./operation.ts";
export { buildRequest, injectConf, type RequestExtras } from "./request.ts";
export type { CniArgs, RuntimeConf } from "./runtime_conf.ts";
export type { NetworkRuntimeOptions } from "./tools.ts";
