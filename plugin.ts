/**
 * The toolkit for CNI plugins: define one with {@linkcode definePlugin}, run it
 * as this process with {@linkcode runMain}, or run a single call in memory with
 * {@linkcode dispatch}.
 *
 * ```ts
 * import {
 *   definePlugin,
 *   emptyResult,
 *   netConf,
 *   runMain,
 *   SPEC_VERSIONS,
 * } from "@cni/plugins/plugin";
 * import * as z from "zod/mini";
 *
 * const greeter = definePlugin({
 *   name: "greeter",
 *   versions: SPEC_VERSIONS,
 *   configSchema: () => netConf({ greeting: z.optional(z.string()) }),
 *   add(call) {
 *     call.log.info(call.config.greeting ?? "hello");
 *     return call.prevResult ?? emptyResult();
 *   },
 * });
 *
 * if (import.meta.main) await runMain(greeter);
 * ```
 *
 * It is a separate entry point of `@cni/plugins`, so that a plugin does not
 * load unused code at its start. `@cni/plugins/kernel` has links, addresses,
 * routes and namespaces, `@cni/plugins/testing` has disposable namespaces for
 * tests.
 *
 * @module
 */

// Plugins, and running them.
export {
  type Call,
  definePlugin,
  type ForeignResult,
  type MaybePromise,
  type Plugin,
} from "./cni/plugin.ts";
export {
  type CmdArgs,
  type Command,
  COMMANDS,
  type Environment,
  parseArgs,
} from "./cni/args.ts";
export { dispatch, runMain } from "./cni/skel.ts";
export type { Dispatch, PluginLookup } from "./cni/invoke/in_process.ts";
export type { Delegate } from "./cni/invoke/delegate.ts";
export type {
  DispatchInput,
  DispatchOutput,
  Invocation,
  Invoker,
  Surroundings,
} from "./cni/surroundings.ts";
export { SPEC_VERSIONS, type SpecVersion } from "./cni/version.ts";

// Cleanup, errors, log.
export type { Together, Work } from "./cni/together.ts";
export { Rollback, tryAll, type Undo } from "./cni/rollback.ts";
export {
  CniError,
  describeError,
  ErrorCode,
  type ErrorObject,
  toCniError,
} from "./cni/error.ts";
export type { Log, LogFields, LogLevel } from "./cni/log.ts";

// Configurations.
export {
  cidrSchema,
  ipSchema,
  type NetConf,
  netConf,
  type NetConfWith,
  once,
  parsedText,
  type TextSchema,
  type ValidAttachment,
} from "./cni/types.ts";
export type {
  JsonObject,
  JsonValue,
  Schema,
  SchemaOutput,
} from "./cni/json.ts";

// Results.
export {
  type Dns,
  emptyDns,
  emptyResult,
  type Interface,
  type IpConfig,
  type Result,
  type Route,
} from "./cni/result.ts";
export { decodeResult } from "./cni/result_decoding.ts";
export { encodeResult, formatResult } from "./cni/result_encoding.ts";

// Addresses.
export { Cidr } from "./net/cidr.ts";
export { AddressError, Ip, type IpFamily } from "./net/ip.ts";
export { Mac } from "./net/mac.ts";
