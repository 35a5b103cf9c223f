/**
 * Everything you need to write a CNI plugin: define one with
 * {@linkcode definePlugin}, run it as this process with {@linkcode runMain}, or run
 * a single call in memory with {@linkcode dispatch}. Network namespaces are values,
 * and their contents are read and changed over netlink, without running other
 * programs.
 *
 * ```ts
 * import {
 *   definePlugin,
 *   emptyResult,
 *   netConf,
 *   openSandbox,
 *   runMain,
 *   SPEC_VERSIONS,
 * } from "@cni/plugins";
 * import * as z from "zod/mini";
 *
 * const greeter = definePlugin({
 *   name: "greeter",
 *   versions: SPEC_VERSIONS,
 *   configSchema: () => netConf({ greeting: z.optional(z.string()) }),
 *   add(call) {
 *     using sandbox = openSandbox(call.args);
 *     const names = sandbox.link.list().map(({ name }) => name);
 *     call.log.info(call.config.greeting ?? "hello", { links: names.join(" ") });
 *     return call.prevResult ?? emptyResult();
 *   },
 * });
 *
 * if (import.meta.main) await runMain(greeter);
 * ```
 *
 * A plugin's executable contains only what the plugin uses. Functions that talk to
 * the kernel are synchronous. They need `--allow-ffi`, which compiled plugins have,
 * and root's capabilities. The C library is opened on first use.
 *
 * `@cni/plugins/libcni` is for container runtimes, `@cni/plugins/netlink` declares
 * messages of the kernel that are not covered here, and `@cni/plugins/testing` has
 * disposable namespaces for tests.
 *
 * @module
 */

// Plugins, and running them.
export {
  type Call,
  definePlugin,
  type ForeignResult,
  type Plugin,
  type RepairScope,
} from "./cni/plugin.ts";
export type { MaybePromise } from "./base/waiting.ts";
export {
  type CmdArgs,
  type Command,
  COMMANDS,
  parseArgs,
} from "./cni/call/args.ts";
export type { Environment } from "./base/process/environment.ts";
export { dispatch, runMain, runNamed } from "./cni/skel.ts";

// How a plugin describes itself to tools: validate, explain, schema, gc --orphans.
export type {
  GatewayLink,
  GivenRange,
  GivenSubnet,
  GoDifference,
  LinkKey,
  Lint,
  Linted,
  LowerLink,
  NetworkTopology,
  PluginKind,
  PluginMetadata,
  PluginStatus,
  PluginTrait,
  Runs,
  SegmentKeys,
  StartingConf,
} from "./metadata/plugin_metadata.ts";
export {
  answerTools,
  type PluginDescription,
} from "./metadata/answer_tools.ts";
export type {
  Evidence,
  FoundLease,
  OrphanFinder,
  OrphanSearch,
  PluginOrphans,
} from "./metadata/orphans.ts";
export type { JsonSchema } from "./metadata/json_schema.ts";
export {
  type Orphan,
  ORPHAN_KINDS,
  type OrphanKind,
  type OrphanOwner,
  type Reason,
} from "./metadata/orphans.ts";
export type { KeyDescription, Named } from "./metadata/plugin_keys.ts";
export type {
  DescribeAnswer,
  LintAnswer,
  OrphanAnswer,
  OrphanQuestion,
  Question,
  ReportedOrphan,
} from "./metadata/tool_question.ts";
export {
  type ConfigPath,
  errorAt,
  keyWarningAt,
  type Problem,
  type Severity,
  WARNING_CODES,
  warningAt,
  type WarningCode,
} from "./metadata/problem.ts";

export type {
  Dispatch,
  InvokerOptions,
  PluginLookup,
} from "./cni/invoke/in_process.ts";
export type { DelegatedIpam, DelegatedPlugin } from "./cni/invoke/delegate.ts";
export type {
  AddressConflict,
  CallContext,
  CallControl,
  CallEnvironment,
  CallOutput,
  DispatchInput,
  DispatchOutput,
  Invocation,
  Invoker,
  ListContext,
  Starter,
  StartingPlugin,
  YieldDuring,
} from "./cni/call/context.ts";
export { SPEC_VERSIONS, type SpecVersion } from "./cni/version.ts";

// Cleanup, errors, log.
export type {
  DeletableLink,
  DeleteLinks,
  LinkDeletion,
  LinkLocation,
  LinkToDelete,
  Preparation,
} from "./cni/call/link_deletion.ts";
export {
  Rollback,
  type TearDownStep,
  tryAll,
  type Undo,
} from "./base/rollback.ts";
export {
  CniError,
  describeError,
  ErrorCode,
  type ErrorObject,
  toCniError,
} from "./base/error.ts";
export type { Log, LogFields, LogLevel } from "./base/log/log.ts";

// Configurations.
export {
  type AttachmentId,
  cidrSchema,
  ipSchema,
  type NetConf,
  netConf,
  type NetConfWith,
  parsedText,
  type TextSchema,
} from "./cni/config/types.ts";
export type { Conflict } from "./cni/config/conflicts.ts";
export {
  type JsonObject,
  type JsonValue,
  once,
  type Schema,
  type SchemaOutput,
} from "./base/json/json.ts";

// Results.
export {
  type Dns,
  emptyDns,
  emptyResult,
  type Interface,
  type IpConfig,
  type Result,
  type Route,
} from "./cni/result/result.ts";
export { decodeResult } from "./cni/result/decoding.ts";
export { encodeResult, formatResult } from "./cni/result/encoding.ts";

// Addresses.
export { Cidr } from "./net/cidr.ts";
export { AddressError, Ip, type IpFamily } from "./net/ip.ts";
export { Mac } from "./net/mac.ts";

// Namespaces: the container's. `Rtnl.open` opens the host's, `call.hostNetns`.
export {
  checkIfNameIsFree,
  findSandbox,
  openSandbox,
} from "./plugins/parts/sandbox/sandbox.ts";
export { inNetns, isMissingNetns, NetNs, type Sync } from "./ffi/netns.ts";

// The contents of a namespace: by an open `Rtnl`, or its socket for rare
// requests.
export { Rtnl } from "./ffi/rtnl/mod.ts";
export * from "./ffi/rtnl/link.ts";
export { StartedDeletion } from "./ffi/rtnl/link_deletion.ts";
export * from "./ffi/rtnl/address.ts";
export {
  type Lookup,
  type Packet,
  type Route as KernelRoute,
  type RouteFilter,
  RouteRequests,
} from "./ffi/rtnl/route.ts";
export {
  type NextHop,
  RouteEntry,
  type RouteOrigin,
  type RouteParts,
  type RouteType,
} from "./ffi/rtnl/route_entry.ts";
export * from "./ffi/rtnl/neighbor.ts";
export * from "./ffi/rtnl/bridge_vlan.ts";
export { ensureSysctl, readSysctl, writeSysctl } from "./ffi/sysctl.ts";

// The host's end of a link needs a name that DEL can compute again.
export { stableName } from "./plugins/parts/owner/stable_name.ts";

// CHECK: compares the kernel's state with a result.
export {
  checkAddresses,
  checkFailure,
  checkLink,
  checkRoutes,
  sandboxInterfaceOf,
} from "./plugins/parts/link/check_link.ts";
export type {
  ExpectedAddress,
  ExpectedLink,
  ExpectedRoute,
  ExpectedSysctl,
  ExpectedVlans,
  InNetns,
  KernelObject,
} from "./cni/call/differences.ts";
export {
  addressesOf,
  ownIpsOf,
  readablePrevResult,
} from "./plugins/parts/sandbox/prev_result.ts";

// Errors of the kernel: compare `errno`, never messages.
export { isErrno, SyscallError } from "./ffi/errno.ts";
export { NetlinkError } from "./ffi/netlink/error.ts";

// State in files, shared with other processes.
export { FileLock } from "./base/files/lock.ts";
