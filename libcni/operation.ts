/**
 * The common part of all operations on a network: its plugins, one run of a
 * plugin, and the errors of plugins.
 *
 * @module
 */

import { giveTurn } from "../base/deadline.ts";
import type { Command } from "../cni/call/args.ts";
import { CniError, ErrorCode, toCniError } from "../base/error.ts";
import { findPlugin } from "../cni/invoke/find.ts";
import type { PluginOutput } from "../cni/invoke/plugin_result.ts";
import { runtimeEnv } from "../cni/invoke/runtime_env.ts";
import type { Result } from "../cni/result/result.ts";
import { isAtLeast } from "../cni/version.ts";
import type { NetworkConfList, PluginConf } from "./conf.ts";
import { formatCniArgs, type RuntimeConf } from "./runtime_conf.ts";
import type { PluginTools } from "./tools.ts";

/** The part of a list that operations read. */
export type Network = Pick<
  NetworkConfList,
  "name" | "cniVersion" | "plugins" | "bytes"
>;

/** The part of a list that determines its plugins' input. */
export type PluginList = Pick<Network, "name" | "cniVersion" | "plugins">;

/** When to give up. */
export interface OperationOptions {
  /** Ends the running plugin and the operation. */
  readonly signal?: AbortSignal | undefined;
}

export interface PluginRun extends OperationOptions {
  readonly command: Command;
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
  await giveTurn();
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

/** Finds a plugin's executable. Throws like `findPlugin`. */
export function pathOf(type: string, { pluginDirs }: PluginTools): string {
  return findPlugin(type, pluginDirs);
}

/** The failure of a plugin of a list; the cause is the plugin's error. */
export class PluginFailure extends Error {
  /** Returns the Go library's text: the failed plugin, and what it says. */
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
export function sayWhichFailed(error: unknown): CniError {
  const hasText = error instanceof Error && !(error instanceof CniError) &&
    error.cause !== undefined;
  if (!hasText) return toCniError(error);
  const { code, message, details } = toCniError(error.cause);
  return new CniError(code, `${error.message}: ${message}`, { details });
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
