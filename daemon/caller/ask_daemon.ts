/**
 * Has a node daemon run a call, before the executable runs the plugin locally.
 *
 * @module
 */

import { printAndExit } from "../../cni/call/answer.ts";
import {
  DIRECTORY_PROGRAMS,
  isForDaemon,
  SHIM,
  SocketKey,
} from "../wire/daemon_socket.ts";
import type { PluginLookup } from "../../cni/invoke/in_process.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { readStdinName, StdinName } from "../wire/stdin_name.ts";
import {
  readEnvironment,
  readStdin,
  readVariable,
} from "../../base/process/stdio.ts";
import type { AskThirdParty } from "./hand_over.ts";

export { SHIM };

/** How a process runs its call. */
export interface CallOptions {
  /**
   * Reads stdin if the launcher gave the process a different name, with which no
   * daemon runs calls.
   */
  readonly renamedStdin?: (() => Uint8Array) | undefined;
  /** Asks a third-party daemon if there is no node daemon. */
  readonly askThirdParty?: AskThirdParty | undefined;
  /** As for `runMain()`. */
  readonly lookup?: PluginLookup | undefined;
}

/**
 * Has a node daemon run a call, if the configuration allows it. It sets the exit
 * status to 1 first: a process that runs out of work without an answer must not
 * report success.
 */
export async function askDaemon(
  name: string,
  stdin: () => Uint8Array,
  { renamedStdin, askThirdParty }: CallOptions = {},
): Promise<Parameters<typeof printAndExit>[0] | undefined> {
  Deno.exitCode = 1;
  const config = findDaemonConfig(name, stdin, renamedStdin !== undefined);
  if (config === undefined) return undefined;
  const { handOver } = await import("./hand_over.ts");
  const call = { name, env: readEnvironment(), stdin: config };
  return await handOver(call, askThirdParty);
}

/**
 * Reads the configuration if a node daemon can run the call.
 *
 * @returns Undefined if this process must run the call locally
 */
function findDaemonConfig(
  name: string,
  stdin: () => Uint8Array,
  isRenamed: boolean,
): Uint8Array | undefined {
  if (Deno.args.length > 0 || !isForDaemon(readVariable)) {
    return;
  }
  const stdinName = readStdinName();
  if (stdinName === StdinName.local && !isRenamed) return;
  try {
    const bytes = stdin();
    return stdinName !== StdinName.noDaemon || hasOthers(name, bytes)
      ? bytes
      : undefined;
  } catch {
    return undefined; // the call reports it
  }
}

/** Reports whether a call has more than one socket to try. */
function hasOthers(name: string, config: Uint8Array): boolean {
  return name === SHIM || Object.hasOwn(DIRECTORY_PROGRAMS, name) &&
      new TextDecoder().decode(config).includes(SocketKey.directory);
}

/**
 * Returns a function that reads all of stdin at its first call. If that fails, later
 * calls fail as well, because the rest of a stream is not a configuration.
 */
export function readOnce(): () => Uint8Array {
  let bytes: Uint8Array | undefined;
  let failure: unknown;
  return () => {
    if (failure !== undefined) throw failure;
    try {
      return bytes ??= readStdin();
    } catch (error) {
      failure = error;
      throw error;
    }
  };
}

/**
 * Runs this process as a plugin, unless a node daemon runs the call.
 *
 * @param name As `calledAs()` returns it, or the plugin's if the process has another name
 * @param load Returns the plugin; nothing for an unknown type
 */
export async function runAsPlugin(
  name: string,
  load: () => Promise<Plugin | undefined> | Plugin | undefined,
  options: CallOptions = {},
): Promise<void> {
  const stdin = options.renamedStdin ?? readOnce();
  const answer = await askDaemon(name, stdin, options);
  if (answer !== undefined) printAndExit(answer);
  const loading = load();
  const { runMain } = await import("../../cni/skel.ts");
  const plugin = await loading;
  if (plugin !== undefined) await runMain(plugin, options.lookup, stdin);
}
