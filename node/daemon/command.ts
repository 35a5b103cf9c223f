/**
 * The command `cni daemon`, also `multus daemon`.
 *
 * @module
 */

import { buildIdentity } from "../../cni/build_identity.ts";
import { OperationLog } from "../../plugins/multus/log/operation_log.ts";
import type { LogLevel } from "../../plugins/multus/log/operation_log.ts";
import { findPlugin } from "../../plugins/registry.ts";
import type { CommandWorld } from "../multus/command_row.ts";
import { formatFlags } from "../multus/flags.ts";
import { runDaemon } from "./daemon.ts";
import {
  type DaemonCommand,
  daemonFlags,
  readDaemonOptions,
} from "./options.ts";
import { answerThick, readOverlay } from "./thick/serve.ts";

/**
 * Runs the command until the signal.
 *
 * @throws {CniError} 4 if the command line is invalid, 5 if it cannot listen
 */
export async function daemon(
  command: DaemonCommand,
  args: readonly string[],
  world: Pick<
    CommandWorld,
    "env" | "pluginNames" | "signal" | "onStdout" | "onStderr"
  >,
): Promise<number> {
  const { env, signal, onStdout, onStderr, pluginNames } = world;
  const options = readDaemonOptions(command, args, env);
  if (options === undefined) return onStdout(formatHelp(command));
  // So that no call waits for code to be loaded.
  await Promise.all(pluginNames.map((type) => findPlugin(type)));
  const overlay = readOverlay(options.config);
  const thick = { lookup: findPlugin, env, overlay, onStderr };
  await runDaemon({
    ...options,
    handle: (request, running) => answerThick(request, running, thick),
    build: buildIdentity,
    hostNetns: "/proc/thread-self/ns/net",
    env,
    lookup: findPlugin,
    log: openLog(options.logLevel, onStderr),
    signal,
  });
  return 0;
}

/** Logs to stderr only: a daemon's output is collected by its supervisor. */
function openLog(
  logLevel: LogLevel,
  onStderr: (text: string) => void,
): OperationLog {
  const logOptions = {
    maxAgeDays: 0,
    maxSizeMegabytes: 0,
    maxBackups: 0,
    compress: false,
  };
  return new OperationLog(
    { logLevel, logToStderr: true, logOptions },
    onStderr,
  );
}

function formatHelp(command: DaemonCommand): string {
  return [
    "Runs calls of plugins for processes whose configuration names its socket,",
    "and keeps what multus needs of the cluster at hand. If it does not run,",
    "the processes do their work themselves.",
    "",
    `Usage: ${command.name} [FLAGS]`,
    "",
    "Flags:",
    formatFlags(daemonFlags(command)),
  ].join("\n");
}
