/**
 * The command `cni daemon`, also `multus daemon`.
 *
 * @module
 */

import { buildIdentity } from "../../cni/build_identity.ts";
import { OperationLog } from "../../plugins/multus/log/operation_log.ts";
import type { LogLevel } from "../../plugins/multus/log/operation_log.ts";
import { findPlugin, pluginNames } from "../../plugins/registry.ts";
import type { CommandCall, FlagValues, Output } from "../../tool/command.ts";
import { runDaemon } from "./daemon.ts";
import { type DAEMON_FLAGS, readDaemonOptions } from "./options.ts";
import { answerThick, readOverlay } from "./thick/serve.ts";

/**
 * Runs the command until the signal.
 *
 * @throws {UsageError} If a flag is invalid
 * @throws {CniError} 5 if it cannot listen
 */
export async function daemon(
  call: CommandCall<FlagValues<typeof DAEMON_FLAGS>>,
): Promise<Output> {
  const { env, signal, onStderr } = call;
  const options = readDaemonOptions(call);
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
  return { json: {}, text: "" };
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
