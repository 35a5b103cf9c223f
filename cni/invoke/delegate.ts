/**
 * Calling another plugin on behalf of this one: IPAM, or multus's networks.
 *
 * @module
 */

import type { Command, Environment } from "../args.ts";
import { CniError, ErrorCode } from "../error.ts";
import { parseJson } from "../json.ts";
import type { Log } from "../log.ts";
import type { Result } from "../result.ts";
import { decodeResult } from "../result_versions.ts";
import { Rollback } from "../rollback.ts";
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
  { caller, invoker, env, stdin, hostNetns, onStderr }: DelegateContext,
  read: (stdout: string, result: Result | undefined) => T,
): Promise<T> {
  try {
    checkCaller(type, caller);
    let result: Result | undefined;
    const stdout = await invoker.invoke({
      type,
      env: { ...env, CNI_COMMAND: command },
      stdin,
      hostNetns,
      onStderr,
      onResult: (value) => {
        result = value;
      },
    });
    return read(stdout, result);
  } catch (error) {
    throw new Error(`plugin "${type}" failed (${command})`, { cause: error });
  }
}

async function addOrUndo(
  type: string,
  context: DelegateContext,
): Promise<Result> {
  const { cniVersion, log } = context;
  await using rollback = new Rollback(log);
  const result = await runDelegate(type, "ADD", context, (stdout, result) => {
    rollback.onFailure(
      `clean up after plugin "${type}"`,
      () => runDelegate(type, "DEL", context, () => {}),
    );
    return result ??
      decodeResult(parseJson(stdout, "result") ?? {}, cniVersion);
  });
  rollback.commit();
  return result;
}
