/**
 * Shared code of the operations on a network: options and tools, the attachment, a
 * plugin's input, a run of a plugin, and its errors.
 *
 * @module
 */

import { yieldToEventLoop } from "../base/deadline.ts";
import { type Command, isNetnsOverridden } from "../cni/call/args.ts";
import { CniError, ErrorCode, toCniError, withMessage } from "../base/error.ts";
import { findExecutable } from "../cni/invoke/find.ts";
import type { PluginOutput } from "../cni/invoke/plugin_result.ts";
import { runtimeEnv } from "../cni/invoke/runtime_env.ts";
import type { Result } from "../cni/result/result.ts";
import { isAtLeast } from "../cni/version.ts";
import {
  type Network,
  type NetworkConfList,
  type PluginConf,
  setKeys,
} from "./conf.ts";
import type {
  AttachmentCache,
  CachedRequest,
  DescribedAttachment,
} from "./cache.ts";
import type { AttachmentLocks } from "./lock.ts";
import type { Log } from "../base/log/log.ts";
import { isOwnNetns } from "../cni/call/own_netns.ts";
import type { CallContext } from "../cni/call/context.ts";
import {
  type JsonObject,
  type JsonValue,
  omitAbsent,
} from "../base/json/json.ts";
import type { Attachment, AttachmentId } from "../cni/config/types.ts";
import type { REPAIR } from "../cni/call/variables.ts";
import { encodeJson } from "../base/json/json_bytes.ts";

/** When to give up. */
export interface OperationOptions {
  /** Ends the running plugin and the operation. */
  readonly signal?: AbortSignal | undefined;
}

export interface PluginRun extends OperationOptions {
  readonly command: Command | typeof REPAIR;
  /** The plugin's `type`. */
  readonly type: string;
  /** The configuration, as returned by `buildRequest`. */
  readonly stdin: Uint8Array;
  /** The attachment; undefined for GC and STATUS. */
  readonly conf?: RuntimeConf;
}

/**
 * Runs a plugin.
 *
 * @throws {CniError} The plugin's error, or why it could not be run
 */
export async function runPlugin(
  { pluginDirs, context }: PluginTools,
  { command, type, stdin, conf, signal }: PluginRun,
): Promise<PluginOutput> {
  await yieldToEventLoop();
  let result: Result | undefined;
  const stdout = await context.invoker.invoke({
    ...context,
    type,
    env: runtimeEnv({
      command,
      ...conf && {
        containerId: conf.containerId,
        netns: conf.netns,
        ifName: conf.ifName,
        args: formatCniArgs(conf),
      },
      path: pluginDirs.join(":"),
    }, context.env),
    stdin,
    onResult: (value) => {
      result = value;
    },
    signal,
  });
  return { stdout, result };
}

/** Finds a plugin's executable. Throws like `findExecutable`. */
export function pathOf(type: string, { pluginDirs }: PluginTools): string {
  return findExecutable(type, pluginDirs);
}

/** The failure of a plugin of a list; the cause is the plugin's error. */
export class PluginFailure extends Error {
  /** Returns the Go library's text: the failed plugin, and its error. */
  override toString(): string {
    return this.cause === undefined
      ? this.message
      : `${this.message}: ${toCniError(this.cause)}`;
  }
}

/**
 * Creates the error that names the failed plugin of a list.
 *
 * Source: containernetworking/cni libcni/api.go `pluginDescription`.
 *
 * @param action The failed action in the Go library's words: `add` or `delete`
 */
export function pluginFailure(
  { type, name }: PluginConf,
  action: "add" | "delete",
  cause: unknown,
): PluginFailure {
  const description = name
    ? `type=${JSON.stringify(type)} name=${JSON.stringify(name)}`
    : `type=${JSON.stringify(type)}`;
  return new PluginFailure(`plugin ${description} failed (${action})`, {
    cause,
  });
}

/**
 * Creates the error of a plugin that runs others. The message, which runtimes
 * show, names the failed plugin. Code and details are from that plugin's error.
 */
export function describeFailedPlugin(error: unknown): CniError {
  const hasText = error instanceof Error && !(error instanceof CniError) &&
    error.cause !== undefined;
  if (!hasText) return toCniError(error);
  const cause = toCniError(error.cause);
  return withMessage(cause, `${error.message}: ${cause.message}`);
}

/**
 * Reports whether a configuration's version is at least `minimum`.
 *
 * @throws {CniError} 6 If the version cannot be parsed
 */
export function hasVersion(
  { cniVersion }: Pick<Network, "cniVersion">,
  minimum: string,
): boolean {
  try {
    return isAtLeast(cniVersion, minimum);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new CniError(ErrorCode.DecodingFailure, error.message);
  }
}

/** Does the same for any text; a malformed version is below every minimum. */
export function mayHaveVersion(
  network: Pick<Network, "cniVersion">,
  minimum: string,
): boolean {
  try {
    return hasVersion(network, minimum);
  } catch {
    return false;
  }
}

/**
 * Options of a runtime: the context of its plugins, and its own. By default
 * plugins run as processes, the host is this thread's namespace, and the log of
 * plugins and of the runtime goes to stderr.
 */
export interface NetworkRuntimeOptions
  extends Partial<Omit<CallContext, "env" | "signal">> {
  /** The environment of plugins; the CNI_* variables are replaced. */
  readonly env: CallContext["env"];
  /** Directories with plugins in search order: CNI_PATH. */
  readonly pluginDirs: readonly string[];
  /** The cache directory; /var/lib/cni by default. */
  readonly cacheDir?: string;
  /**
   * Whether ADD records each plugin on disk before it runs, so that DEL of an
   * attachment that is not cached runs the plugins that began; false by default.
   */
  readonly recordsSteps?: boolean;
  /**
   * Serializes ADD, CHECK and DEL of a container, and runs GC alone. By default
   * there is no locking, because a plugin that is itself a runtime would wait for its
   * caller.
   */
  readonly locks?: Pick<AttachmentLocks, "lockContainer" | "lockExclusively">;
}

/** A runtime's means to run plugins. */
export interface PluginTools {
  /** Directories with plugins in search order. */
  readonly pluginDirs: readonly string[];
  /** The context of plugins; the CNI_* variables are replaced. */
  readonly context: CallContext;
  /** The runtime's own log, written to the same place as the plugins'. */
  readonly log: Log;
}

/** Everything a runtime needs. */
export interface Tools extends PluginTools {
  readonly cache: AttachmentCache;
  /** Whether each type of plugin that was asked has REPAIR. */
  readonly repairers: Map<string, Promise<boolean>>;
  readonly recordsSteps: boolean;
  readonly locks: NetworkRuntimeOptions["locks"];
}

/** Pairs of CNI_ARGS, in order. */
export type CniArgs = readonly (readonly [key: string, value: string])[];

/**
 * One attachment as its runtime describes it, identical for ADD, CHECK and DEL.
 *
 * Source: containernetworking/cni libcni/api.go `RuntimeConf`.
 */
export interface RuntimeConf {
  /** CNI_CONTAINERID. */
  readonly containerId: string;
  /**
   * CNI_NETNS: path of the sandbox's network namespace; "" if it was deleted
   * (DEL).
   */
  readonly netns: string;
  /** CNI_IFNAME: name of the interface inside the sandbox. */
  readonly ifName: string;
  /** CNI_ARGS, pair by pair. */
  readonly args?: CniArgs;
  /** CNI_ARGS as one text; unless empty, it replaces {@linkcode args}. */
  readonly rawArgs?: string;
  /**
   * Capability arguments, by capability, such as `portMappings`. A plugin gets
   * those that its configuration declares in `capabilities`.
   */
  readonly capabilityArgs?: JsonObject;
}

/** Formats the value of CNI_ARGS. */
export function formatCniArgs({ args = [], rawArgs }: RuntimeConf): string {
  return rawArgs || args.map(([key, value]) => `${key}=${value}`).join(";");
}

/**
 * Lists the pairs of CNI_ARGS for the cache. The value is everything after the
 * first `=`; plugins decide whether to accept it.
 */
export function listCniArgs(conf: RuntimeConf): CniArgs {
  if (!conf.rawArgs) return conf.args ?? [];
  return conf.rawArgs.split(";").map((pair) => {
    const [key = "", ...value] = pair.split("=");
    return [key, value.join("=")];
  });
}

/** Returns the key of an attachment in the cache. */
export function keyOf(
  network: { readonly name: string },
  { containerId, ifName }: RuntimeConf,
): Attachment {
  return { network: network.name, containerId, ifName };
}

/** Returns what the cache keeps of an attachment, apart from its result. */
export function describeAttachment(
  network: { readonly name: string; readonly bytes: Uint8Array },
  conf: RuntimeConf,
): DescribedAttachment {
  return {
    ...keyOf(network, conf),
    netns: conf.netns,
    config: network.bytes,
    cniArgs: listCniArgs(conf),
    capabilityArgs: conf.capabilityArgs ?? {},
  };
}

/** The input of ADD, from the cache. */
export interface CachedConfig {
  /** The network's configuration, byte for byte. */
  readonly config: Uint8Array;
  /** The attachment with the cached arguments and the caller's namespace. */
  readonly conf: RuntimeConf;
}

/**
 * Returns an attachment with its cached arguments, if there were any, and
 * capability arguments. The namespace is kept as given: it might already be
 * deleted.
 *
 * Source: containernetworking/cni libcni/api.go `getCachedConfig`.
 */
export function restoreArgs(
  conf: RuntimeConf,
  { cniArgs, capabilityArgs }: CachedRequest,
): RuntimeConf {
  const { rawArgs: _, ...others } = conf;
  return cniArgs.length === 0
    ? { ...conf, capabilityArgs }
    : { ...others, args: cniArgs, capabilityArgs };
}

/** The input of operations on an existing attachment. */
export interface AttachedOptions extends OperationOptions {
  /** The result of the whole list's ADD, if known. */
  readonly prevResult?: JsonObject | undefined;
}

/** The parts of a request apart from the network's name and version. */
export interface RequestExtras {
  /** The previous plugin's or the whole chain's result, in its own version. */
  readonly prevResult?: JsonObject | undefined;
  /** Capability arguments, by capability; for ADD, CHECK and DEL. */
  readonly capabilityArgs?: JsonObject | undefined;
  /** The valid attachments for GC; undefined if unknown. */
  readonly gc?:
    | { readonly validAttachments: readonly AttachmentId[] }
    | undefined;
}

/**
 * Builds the configuration that a plugin reads from stdin.
 *
 * Passes on keys from the file that the runtime does not set, including
 * `prevResult` and `runtimeConfig`.
 *
 * @param list The network; its name and version go to every plugin
 * @throws {CniError} 7 If it cannot be encoded
 */
export function buildRequest(
  list: Pick<NetworkConfList, "name" | "cniVersion">,
  plugin: PluginConf,
  { prevResult, capabilityArgs = {}, gc }: RequestExtras = {},
): Uint8Array<ArrayBuffer> {
  const attachments = gc?.validAttachments.map(formatAttachment);
  const keys = omitAbsent<Record<string, JsonValue>>({
    name: list.name,
    cniVersion: list.cniVersion,
    prevResult,
    runtimeConfig: pickRuntimeConfig(plugin, capabilityArgs),
    "cni.dev/valid-attachments": attachments,
    // The key that libcni 1.2 and the plugins of its time use.
    "cni.dev/attachments": attachments,
  });
  // The plugin's own keys have been decoded; these keys cannot make them
  // invalid.
  return encodeJson(setKeys(plugin.document, keys));
}

/** Picks the capability arguments that the plugin declares; undefined if none. */
function pickRuntimeConfig(
  { capabilities }: PluginConf,
  capabilityArgs: JsonObject,
): JsonObject | undefined {
  const picked = Object.entries(capabilityArgs)
    .filter(([capability]) =>
      Object.hasOwn(capabilities, capability) && capabilities[capability]
    );
  return picked.length === 0 ? undefined : Object.fromEntries(picked);
}

function formatAttachment(
  { containerId, ifName }: AttachmentId,
): JsonObject {
  return { containerID: containerId, ifname: ifName };
}

/**
 * Returns an attachment without its namespace, and logs this, if the path now leads to
 * the runtime's own namespace. This happens to a path such as /proc/PID/ns/net after
 * the process has ended and another process on the host has its PID. Plugins would
 * delete the host's links by name.
 *
 * With CNI_NETNS_OVERRIDE, that namespace is allowed.
 *
 * @throws {CniError} 8 if the runtime's own namespace cannot be read
 */
export function dropRecycledNetns(
  { context, log }: Pick<PluginTools, "context" | "log">,
  conf: RuntimeConf,
): RuntimeConf {
  const { netns, containerId, ifName } = conf;
  const { env, hostNetns } = context;
  const netnsOverride = isNetnsOverridden(env);
  if (!isOwnNetns({ netns, netnsOverride }, hostNetns)) return conf;
  log.warn(
    "Deleting without the namespace: its path now leads to the host's namespace",
    {
      containerId,
      ifName,
      netns,
    },
  );
  return { ...conf, netns: "" };
}
