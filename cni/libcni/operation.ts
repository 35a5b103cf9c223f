/**
 * What all operations on a network share: its plugins, one run of one of them,
 * and what is said of its failure.
 *
 * @module
 */

import type { Command } from "../args.ts";
import type { DeferredLinks } from "../deferred_links.ts";
import { CniError, ErrorCode, toCniError } from "../error.ts";
import { findPlugin } from "../invoke/find.ts";
import type { PluginOutput } from "../invoke/plugin_result.ts";
import { runtimeEnv } from "../invoke/runtime_env.ts";
import type { Result } from "../result.ts";
import { isAtLeast } from "../version.ts";
import type { NetworkConfList, PluginConf } from "./conf.ts";
import { formatCniArgs, type RuntimeConf } from "./runtime_conf.ts";
import type { PluginTools } from "./tools.ts";

/** The part of a list of plugins that the operations read. */
export type Network = Pick<
  NetworkConfList,
  "name" | "cniVersion" | "plugins" | "bytes"
>;

/** The part of it that its plugins are given, or follows from. */
export type PluginList = Pick<Network, "name" | "cniVersion" | "plugins">;

/** When to give up. */
export interface OperationOptions {
  /** Ends the plugin that runs, and the operation. */
  readonly signal?: AbortSignal | undefined;
}

/** One run of a plugin. */
export interface PluginRun extends OperationOptions {
  readonly command: Command;
  /** The plugin's `type`. */
  readonly type: string;
  /** The request, as `buildRequest` made it. */
  readonly stdin: Uint8Array;
  /** The attachment; GC and STATUS are about none. */
  readonly conf?: RuntimeConf;
  /** DEL: what the plugins leave to each other to delete. */
  readonly deferredLinks?: DeferredLinks | undefined;
  /** Called before a process is started; what the tools say by default. */
  readonly onProcess?: () => Promise<void>;
}

/**
 * Runs a plugin.
 *
 * @throws {CniError} The plugin's own, or why it could not be run
 */
export async function runPlugin(
  tools: PluginTools,
  { command, type, stdin, conf, signal, ...hooks }: PluginRun,
): Promise<PluginOutput> {
  const { pluginDirs, env, invoker, hostNetns, onStderr, onProcess } = tools;
  let result: Result | undefined;
  const stdout = await invoker.invoke({
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
    }, env),
    stdin,
    hostNetns,
    onStderr,
    onResult: (value) => {
      result = value;
    },
    signal,
    onProcess,
    ...hooks,
  });
  return { stdout, result };
}

/** Finds a plugin's executable. Throws as `findPlugin` does. */
export function pathOf(type: string, { pluginDirs }: PluginTools): string {
  return findPlugin(type, pluginDirs);
}

/** A plugin of a list that failed; the cause is its error. */
export class PluginFailure extends Error {}

/**
 * Makes the error that says which plugin of a list failed.
 *
 * Source: containernetworking/cni libcni/api.go `pluginDescription`.
 *
 * @param action What failed, as the Go library calls it: `add` or `delete`
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
 * Makes the error by which a plugin answers that runs others itself: the message,
 * which is what runtimes show, says which of them failed. Code and details are
 * those of that plugin's error.
 */
export function sayWhichFailed(error: unknown): CniError {
  const hasText = error instanceof Error && !(error instanceof CniError) &&
    error.cause !== undefined;
  if (!hasText) return toCniError(error);
  const { code, message, details } = toCniError(error.cause);
  return new CniError(code, `${error.message}: ${message}`, { details });
}

/**
 * Says whether a configuration's version has what began with `minimum`.
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

/** Says the same of a version that may be anything: one that is none has nothing. */
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
