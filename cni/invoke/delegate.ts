/**
 * Running another plugin for this one, such as its IPAM plugin.
 *
 * @module
 */

import type { Command } from "../call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { AttachmentId } from "../config/types.ts";
import type { Result } from "../result/result.ts";
import type { CallContext } from "../call/context.ts";
import { deadline } from "../../base/deadline.ts";
import { Rollback } from "../../base/rollback.ts";
import { REPAIR } from "../call/variables.ts";
import { findImpossible, isNothingToUndo } from "./find.ts";

/** Another plugin, with this call's environment and configuration. */
export interface DelegatedPlugin {
  /**
   * Runs ADD. If its answer is not a result, DEL follows immediately. After a
   * failed ADD no DEL follows: the plugin has undone its own work, and if it
   * refused because the attachment already has a lease, DEL would release that
   * lease.
   *
   * @throws {CniError} The plugin's error
   */
  add(): Promise<Result>;
  /** Runs CHECK. */
  check(): Promise<void>;
  /**
   * Runs REPAIR.
   *
   * @throws {Error} If the plugin does not declare it, or fails
   */
  repair(): Promise<void>;
  /**
   * Runs DEL. Only warns if no ADD can have run the plugin, because of its type, and
   * there is no prevResult.
   */
  del(): Promise<void>;
  /** Runs GC. Only warns in the same case as DEL. */
  gc(): Promise<void>;
  /** Runs STATUS. */
  status(): Promise<void>;
}

/** The IPAM plugin of a call. */
export interface DelegatedIpam extends DelegatedPlugin {
  /**
   * Runs GC. Only warns in the same case as DEL.
   *
   * @param more Attachments whose addresses are kept in addition to the valid ones
   */
  gc(more?: readonly AttachmentId[]): Promise<void>;
}

/** The call that runs a delegate. */
export interface DelegatingCall {
  /** Its plugin. */
  readonly caller: string;
  readonly context: CallContext;
  /** The configuration, passed on byte for byte. */
  readonly stdin: Uint8Array;
  readonly cniVersion: string;
  /** Whether the configuration has a prevResult; false by default. */
  readonly hasResult?: boolean;
  readonly log: Log;
}

type AnyCommand = Command | typeof REPAIR;

/** Prepares a delegate. A missing plugin is noticed when it is called. */
export function delegateTo(
  type: string,
  call: DelegatingCall,
): DelegatedPlugin {
  const run = (command: AnyCommand): Promise<void> =>
    runDelegate(type, command, call, () => {});
  const undo = async (command: "DEL" | "GC"): Promise<void> => {
    const problem = findImpossible(type, call.caller);
    const isAdded = call.hasResult ?? false;
    if (isNothingToUndo({ type, problem, isAdded }, call.log)) return;
    await run(command);
  };
  return {
    add: () => addOrUndo(type, call),
    check: () => run("CHECK"),
    repair: async () => {
      await requireRepair(type, call);
      await run(REPAIR);
    },
    del: () => undo("DEL"),
    gc: () => undo("GC"),
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

/** @throws {Error} If the plugin does not declare REPAIR */
async function requireRepair(
  type: string,
  { context }: DelegatingCall,
): Promise<void> {
  const { declaresRepair } = await import("./repair.ts");
  const path = context.env["CNI_PATH"] ?? "";
  if (await declaresRepair(type, path, context)) return;
  throw new Error(`plugin "${type}" cannot repair`);
}

/** @param read Converts the plugin's output to the return value */
async function runDelegate<T>(
  type: string,
  command: AnyCommand,
  call: DelegatingCall,
  read: (stdout: string, result: Result | undefined) => T | Promise<T>,
): Promise<T> {
  const { caller, context, stdin } = call;
  try {
    checkCaller(type, caller);
    let result: Result | undefined;
    const stdout = await context.invoker.invoke({
      ...context,
      type,
      env: { ...context.env, CNI_COMMAND: command },
      stdin,
      signal: signalFor(command, context),
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
  command: AnyCommand,
  { env, signal }: CallContext,
): AbortSignal | undefined {
  const isCleanUp = command === "DEL" && env["CNI_COMMAND"] !== "DEL";
  return signal && isCleanUp ? deadline(CLEAN_UP_MS) : signal;
}

async function addOrUndo(
  type: string,
  call: DelegatingCall,
): Promise<Result> {
  await using rollback = new Rollback(call.log);
  const result = await runDelegate(type, "ADD", call, (stdout, result) => {
    rollback.onFailure(
      `clean up after plugin "${type}"`,
      () => runDelegate(type, "DEL", call, () => {}),
    );
    return result ?? readResult(type, stdout, call);
  });
  rollback.commit();
  return result;
}

/** Reads the output of a process. A plugin in this process passes its result directly. */
async function readResult(
  type: string,
  stdout: string,
  { cniVersion, log }: DelegatingCall,
): Promise<Result> {
  const [{ readPluginResult }, { haveSameShape }] = await Promise.all([
    import("./plugin_result.ts"),
    import("../result/versions.ts"),
  ]);
  const output = { stdout, result: undefined };
  const { document, result } = readPluginResult(output, cniVersion);
  if (!haveSameShape(document.cniVersion, cniVersion)) {
    log.warn("Converting a result of a different version", {
      delegate: type,
      from: document.cniVersion,
      to: cniVersion,
    });
  }
  return result;
}
