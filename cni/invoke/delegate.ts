/**
 * Running another plugin for this one: an IPAM plugin, or a network of multus.
 *
 * @module
 */

import type { Command } from "../call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { Result } from "../result/result.ts";
import { Rollback } from "../call/rollback.ts";
import type { Surroundings } from "../call/surroundings.ts";
import { deadline } from "../../base/deadline.ts";

/** Another plugin, with this call's environment and configuration. */
export interface Delegate {
  /**
   * Runs ADD. If its answer is not a result, DEL follows at once. After a failed
   * ADD no DEL follows: the plugin has undone its own work, and if it refused
   * because the attachment already has a lease, DEL would release that lease.
   *
   * @throws {CniError} The plugin's error
   */
  add(): Promise<Result>;
  /** Runs CHECK. */
  check(): Promise<void>;
  /** Runs DEL. */
  del(): Promise<void>;
  /** Runs GC. */
  gc(): Promise<void>;
  /** Runs STATUS. */
  status(): Promise<void>;
}

/** The input of a delegate. */
export interface DelegateContext {
  /** The plugin that calls. */
  readonly caller: string;
  /** The surroundings of the calling plugin. */
  readonly surroundings: Surroundings;
  /** The configuration, passed on byte for byte. */
  readonly stdin: Uint8Array;
  readonly cniVersion: string;
  readonly log: Log;
}

/** Prepares a delegate. A missing plugin is noticed when it is called. */
export function delegateTo(type: string, context: DelegateContext): Delegate {
  const run = (command: Command): Promise<void> =>
    runDelegate(type, command, context, () => {});
  return {
    add: () => addOrUndo(type, context),
    check: () => run("CHECK"),
    del: () => run("DEL"),
    gc: () => run("GC"),
    status: () => run("STATUS"),
  };
}

/**
 * Refuses a plugin that would call itself: with the same configuration it would
 * do so forever.
 *
 * @throws {CniError} 7 if it would
 */
export function checkCaller(type: string, caller: string): void {
  if (type !== caller) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `plugin "${caller}" cannot delegate to itself`,
  );
}

/** @param read Converts the plugin's output to the return value */
async function runDelegate<T>(
  type: string,
  command: Command,
  context: DelegateContext,
  read: (stdout: string, result: Result | undefined) => T | Promise<T>,
): Promise<T> {
  const { caller, surroundings, stdin } = context;
  try {
    checkCaller(type, caller);
    let result: Result | undefined;
    const stdout = await surroundings.invoker.invoke({
      ...surroundings,
      type,
      env: { ...surroundings.env, CNI_COMMAND: command },
      stdin,
      signal: signalFor(command, surroundings),
      onResult: (value) => {
        result = value;
      },
    });
    return await read(stdout, result);
  } catch (error) {
    const text = type === ""
      ? `${caller} needs "ipam" with a "type"`
      : `plugin "${type}" failed (${command})`;
    throw new Error(text, { cause: error });
  }
}

/** Deadline for cleaning up after another command, in milliseconds. */
const CLEAN_UP_MS = 10_000;

/**
 * Chooses the deadline. A DEL inside another command cleans up after it, possibly
 * because the command ran out of time, so it gets its own deadline.
 */
function signalFor(
  command: Command,
  { env, signal }: Surroundings,
): AbortSignal | undefined {
  const isCleanUp = command === "DEL" && env["CNI_COMMAND"] !== "DEL";
  return signal && isCleanUp ? deadline(CLEAN_UP_MS) : signal;
}

async function addOrUndo(
  type: string,
  context: DelegateContext,
): Promise<Result> {
  await using rollback = new Rollback(context.log);
  const result = await runDelegate(type, "ADD", context, (stdout, result) => {
    rollback.onFailure(
      `clean up after plugin "${type}"`,
      () => runDelegate(type, "DEL", context, () => {}),
    );
    return result ?? readResult(type, stdout, context);
  });
  rollback.commit();
  return result;
}

/** Reads the output of a process. A plugin in this process passes its result directly. */
async function readResult(
  type: string,
  stdout: string,
  { cniVersion, log }: DelegateContext,
): Promise<Result> {
  const [{ readPluginResult }, { haveSameShape }] = await Promise.all([
    import("./plugin_result.ts"),
    import("../result/versions.ts"),
  ]);
  const output = { stdout, result: undefined };
  const { document, result } = readPluginResult(output, cniVersion);
  if (!haveSameShape(document.cniVersion, cniVersion)) {
    log.warn("Converting a result of another version", {
      delegate: type,
      from: document.cniVersion,
      to: cniVersion,
    });
  }
  return result;
}
