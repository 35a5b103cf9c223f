/**
 * The runtime's side of CNI: loads network configurations, runs their plugins
 * and caches attachments.
 *
 * @module
 */

export type { VersionInfo } from "../cni/invoke/version_probe.ts";
export { type NamedNetwork, NetworkRuntime } from "./api.ts";
export type { AddOptions, AddOrUndoOptions } from "./add.ts";
export { Steps, type StepsState } from "./steps.ts";
export type { Attachment } from "../cni/config/types.ts";
export {
  AttachmentCache,
  type AttachmentResult,
  type CachedAttachment,
  type CachedDocument,
  type CachedRequest,
  type CacheListing,
  DEFAULT_CACHE_DIR,
  type DescribedAttachment,
} from "./cache.ts";
export {
  buildRequest,
  type CachedConfig,
  type CniArgs,
  type NetworkRuntimeOptions,
  type OperationOptions,
  PluginFailure,
  type RequestExtras,
  type RuntimeConf,
} from "./operation.ts";
export { CheckNotSupportedError } from "./check.ts";
export type { PluginRepair, RepairOptions } from "./repair.ts";
export type { RepairReport } from "../cni/call/repair.ts";
export {
  appendPlugins,
  injectConf,
  type Network,
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
