/**
 * Calling another plugin on behalf of this one: IPAM, or multus's networks.
 *
 * @module
 */

import type { Command, Environment } from "../args.ts";
import { CniError, ErrorCode } from "../error.ts";
import type { Log } from "../log.ts";
import type { Result } from "../result.ts";
import { Rollback } from "../rollback.ts";
import { deadline } from "./deadline.ts";
import type { Invoker } from "./invoker.ts";

/** Another plugin, with this call's environment and configuration. */
export interface Delegate {
  /**
   * Runs ADD. If what it answers is no result, DEL follows at once. If it fails
   * it does not: a plugin undoes what it failed to do, and one that refused
   * because the attachment has a lease already would end that one.
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

/** What a delegate is called with. */
export interface DelegateContext {
  /** The plugin that calls. */
  readonly caller: string;
  readonly invoker: Invoker;
  readonly env: Environment;
  /** The configuration, passed on byte for byte. */
  readonly stdin: Uint8Array;
  readonly cniVersion: string;
  readonly hostNetns: string;
  readonly log: Log;
  readonly onStderr: (text: string) => void;
  /** When to give up. */
  readonly signal?: AbortSignal | undefined;
  /** Called before a process is started. */
  readonly onProcess?: (() => Promise<void>) | undefined;
}

/** Prepares the calling of a plugin; whether it can be found shows when it is called. */
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
 * Refuses a plugin that would call itself: it would be given the same
 * configuration, and so call itself again.
 *
 * @throws {CniError} 7 if it would
 */
function checkCaller(type: string, caller: string): void {
  if (type !== caller) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `plugin "${caller}" cannot delegate to itself`,
  );
}

/** @param read Makes of what was printed what is returned */
async function runDelegate<T>(
  type: string,
  command: Command,
  context: DelegateContext,
  read: (stdout: string, result: Result | undefined) => T | Promise<T>,
): Promise<T> {
  const { caller, invoker, env, stdin, hostNetns, onStderr, onProcess } =
    context;
  try {
    checkCaller(type, caller);
    let result: Result | undefined;
    const stdout = await invoker.invoke({
      type,
      env: { ...env, CNI_COMMAND: command },
      stdin,
      hostNetns,
      onStderr,
      signal: signalFor(command, context),
      onProcess,
      onResult: (value) => {
        result = value;
      },
    });
    return await read(stdout, result);
  } catch (error) {
    throw new Error(`plugin "${type}" failed (${command})`, { cause: error });
  }
}

/** How long the cleaning up after another command may take, in milliseconds. */
const CLEAN_UP_MS = 10_000;

/**
 * Chooses when to give up. A DEL that another command runs cleans up after it,
 * perhaps because that ran out of time, and so has time of its own.
 */
function signalFor(
  command: Command,
  { env, signal }: DelegateContext,
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

/** Reads what a process has printed; a plugin in this one hands its result over. */
async function readResult(
  type: string,
  stdout: string,
  { cniVersion, log }: DelegateContext,
): Promise<Result> {
  const [{ readPluginResult }, { haveSameShape }] = await Promise.all([
    import("./plugin_result.ts"),
    import("../result_versions.ts"),
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
