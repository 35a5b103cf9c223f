/**
 * Calling another plugin on behalf of this one: IPAM, or multus's networks.
 *
 * @module
 */

import type { Command, Environment } from "../args.ts";
import { describeError } from "../error.ts";
import { parseJson } from "../json.ts";
import type { Log } from "../log.ts";
import type { Result } from "../result.ts";
import { decodeResult } from "../result_versions.ts";
import type { Invoker } from "./invoker.ts";

/** Another plugin, with this call's environment and configuration. */
export interface Delegate {
  /**
   * Runs ADD. If it fails, DEL follows at once, since the plugin may have got
   * half-way; the error of ADD is the one that is thrown.
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
  const run = async (command: Command): Promise<string> => {
    const { invoker, env, ...rest } = context;
    try {
      return await invoker.invoke({
        ...rest,
        type,
        env: { ...env, CNI_COMMAND: command },
      });
    } catch (error) {
      throw new Error(`plugin "${type}" failed (${command})`, { cause: error });
    }
  };
  const runOnly = async (command: Command): Promise<void> => {
    await run(command);
  };
  return {
    add: () => addOrUndo(type, run, context),
    check: () => runOnly("CHECK"),
    del: () => runOnly("DEL"),
    gc: () => runOnly("GC"),
    status: () => runOnly("STATUS"),
  };
}

async function addOrUndo(
  type: string,
  run: (command: Command) => Promise<string>,
  { cniVersion, log }: DelegateContext,
): Promise<Result> {
  try {
    return decodeResult(
      parseJson(await run("ADD"), "result") ?? {},
      cniVersion,
    );
  } catch (error) {
    try {
      await run("DEL");
    } catch (undoError) {
      log.warn(`Cannot clean up after plugin "${type}"`, {
        error: describeError(undoError),
      });
    }
    throw error;
  }
}
