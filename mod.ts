/**
 * CNI plugins and what they are made of, as a library: define a plugin with
 * {@linkcode definePlugin}, run one with {@linkcode dispatch} or
 * {@linkcode runMain}, find the ones of this project in {@linkcode registry}.
 *
 * @module
 */

export {
  type CmdArgs,
  type Command,
  COMMANDS,
  type Environment,
  loadArgs,
  parseArgBoolean,
  parseArgs,
} from "./cni/args.ts";
export {
  CniError,
  describeError,
  ErrorCode,
  type ErrorObject,
  toCniError,
} from "./cni/error.ts";
export type { Delegate } from "./cni/invoke/delegate.ts";
export { execInvoker } from "./cni/invoke/exec.ts";
export { createInvoker } from "./cni/invoke/in_process.ts";
export type {
  Dispatch,
  DispatchInput,
  DispatchOutput,
  Invocation,
  Invoker,
  PluginLookup,
} from "./cni/invoke/invoker.ts";
export type {
  JsonObject,
  JsonValue,
  Schema,
  SchemaOutput,
} from "./cni/json.ts";
export type { Log, LogFields, LogLevel } from "./cni/log.ts";
export {
  type Call,
  definePlugin,
  type MaybePromise,
  type Plugin,
} from "./cni/plugin.ts";
export {
  type Dns,
  emptyDns,
  emptyResult,
  type Interface,
  type IpConfig,
  type Result,
  type Route,
} from "./cni/result.ts";
export {
  decodeResult,
  encodeResult,
  formatResult,
} from "./cni/result_versions.ts";
export { Rollback, tryAll, type Undo } from "./cni/rollback.ts";
export { dispatch, runMain } from "./cni/skel.ts";
export {
  type NetConf,
  netConf,
  type NetConfWith,
  type ValidAttachment,
} from "./cni/types.ts";
export { SPEC_VERSIONS, type SpecVersion } from "./cni/version.ts";
export { Cidr } from "./net/cidr.ts";
export { AddressError, Ip, type IpFamily } from "./net/ip.ts";
export { Mac } from "./net/mac.ts";
export {
  type PluginLoader,
  pluginNames,
  registry,
} from "./plugins/registry.ts";
