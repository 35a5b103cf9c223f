/**
 * The command `cni daemon`, also `multus daemon`.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { mayHaveSpans } from "../../cni/call/variables.ts";
import type { PluginLookup } from "../../cni/invoke/in_process.ts";
import { describeError } from "../../base/error.ts";
import { buildIdentity } from "../../base/process/build_identity.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { createWhereabouts } from "../../ipam/whereabouts/plugin.ts";
import { OperationLog } from "../../plugins/multus/log/operation_log.ts";
import type { LogLevel } from "../../plugins/multus/log/operation_log.ts";
import { createMultus } from "../../plugins/multus/plugin.ts";
import type { OpenCluster } from "../../plugins/multus/pod/cluster.ts";
import { findPlugin, pluginNames } from "../../plugins/registry.ts";
import type {
  CommandCall,
  FlagValues,
  Output,
} from "../../base/command_line/command.ts";
import { ClaimReleaser } from "../../ipam/whereabouts/claim_releaser.ts";
import { ResidentClients } from "../../ipam/whereabouts/resident_clients.ts";
import { ResidentCluster } from "../../plugins/multus/pod/resident_cluster.ts";
import { runDaemon } from "../../daemon/server/daemon.ts";
import type { DaemonSpans } from "../trace/daemon_spans.ts";
import { detach } from "./detach.ts";
import { enterHost } from "../../daemon/server/host.ts";
import type { Gauge } from "../../daemon/server/metrics.ts";
import { type DAEMON_FLAGS, readDaemonOptions } from "./options.ts";
import { removePidFile, writePidFile } from "../../daemon/service/pid_file.ts";
import { collectGarbage } from "../../daemon/server/garbage.ts";
import {
  exitAsStranded,
  exitWhenStranded,
} from "../../daemon/service/stranded.ts";
import { answerThick, readOverlay } from "../../plugins/multus/thick/serve.ts";
import { translateShimCall } from "../../plugins/multus/thick/shim_call.ts";
import { warmUp } from "../../daemon/server/warm_up.ts";

/**
 * Runs the command until the signal.
 *
 * @throws {UsageError} If a flag is invalid
 * @throws {CniError} 5 if it cannot listen
 */
export async function daemon(
  call: CommandCall<FlagValues<typeof DAEMON_FLAGS>>,
): Promise<Output> {
  const { signal, onStderr } = call;
  const options = readDaemonOptions(call);
  const { hostNamespace, pidFile } = options;
  if (options.detaches) return await detach(pidFile, signal);
  const own = { config: options.config, env: call.env };
  const { config, env } = hostNamespace === undefined
    ? own
    : enterHost(hostNamespace, own);
  exitWhenStranded(onStderr);
  // So that no call waits for code to be loaded.
  await Promise.all(pluginNames.map((type) => findPlugin(type)));
  const overlay = readOverlay(config);
  const log = openLog(options.logLevel, onStderr);
  using cluster = ResidentCluster.open({ ...options, env, log });
  const openCluster = cluster?.openCluster;
  using clients = new ResidentClients(log);
  const releaser = new ClaimReleaser({
    clientOf: (kubeconfig) => clients.clientOf({ kubeconfig, env }),
    log,
  });
  const plain = lookupIn(openCluster, clients, releaser);
  await using spans = await loadSpans(env, log);
  const lookup = spans?.lookup(plain) ?? plain;
  const thick = { lookup, env, overlay, onStderr, openCluster };
  const end = new AbortController();
  const following = Promise.all([
    cluster?.run(end.signal),
    releaser.run(end.signal),
  ]);
  try {
    if (options.warmsUp) {
      await warmUp({ ...options, lookup: findPlugin, signal, log });
      await collectGarbage();
    }
    await using _dhcp = startDhcp(options.dhcpSocket, log);
    await runDaemon({
      ...options,
      handle: (request, running) => answerThick(request, running, thick),
      translate: (request) => translateShimCall(request, thick),
      build: buildIdentity,
      hostNetns: OWN_NETNS,
      afterCall: options.logLevel === "debug"
        ? createCheck(onStderr)
        : undefined,
      env,
      lookup,
      trace: spans?.trace,
      gauges: [...cluster ? gaugesOf(cluster) : [], ...spans?.gauges ?? []],
      onListening: () => tryPidFile(pidFile, log),
      log,
      signal,
    });
  } finally {
    removePidFile(pidFile);
    end.abort();
    await following;
    await cluster?.finish(FAREWELL_MS);
  }
  return { json: {}, text: "" };
}

/** Time limit for events that are not posted at the end, in milliseconds. */
const FAREWELL_MS = 1000;

/** Loads what makes spans, if there may be some. */
async function loadSpans(
  env: Environment,
  log: OperationLog,
): Promise<DaemonSpans | undefined> {
  if (!mayHaveSpans((name) => env[name])) return undefined;
  const { startDaemonSpans } = await import("../trace/daemon_spans.ts");
  return await startDaemonSpans(env, log);
}

/** Serves the plugin dhcp until disposal. If it cannot, the rest goes on. */
function startDhcp(
  socket: string,
  log: OperationLog,
): AsyncDisposable | undefined {
  if (socket === "") return undefined;
  const end = new AbortController();
  const running = serveDhcp(socket, log, end.signal).catch((error) =>
    log.error("Cannot serve the plugin dhcp", { error: describeError(error) })
  );
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      end.abort();
      await running;
    },
  };
}

async function serveDhcp(
  socket: string,
  log: OperationLog,
  signal: AbortSignal,
): Promise<void> {
  const { runDhcp } = await import("../../ipam/dhcp/daemon/daemon.ts");
  const { DEFAULT_TIMING } = await import("../../ipam/dhcp/daemon/client.ts");
  const own = { broadcast: false, hostPrefix: "" };
  await runDhcp({ ...DEFAULT_TIMING, ...own, socket, log, signal });
}

/** Writes the process ID. If it cannot, calls go on. */
function tryPidFile(path: string, log: OperationLog): void {
  try {
    writePidFile(path);
  } catch (error) {
    log.error("Cannot say the process ID", { error: describeError(error) });
  }
}

/** Finds plugins; multus and whereabouts use the daemon's connections. */
function lookupIn(
  openCluster: OpenCluster | undefined,
  { open: openClient }: ResidentClients,
  releaser: ClaimReleaser,
): PluginLookup {
  const own = new Map<string, Plugin>();
  const onClaim = releaser.note.bind(releaser);
  const whereabouts = createWhereabouts({ openClient, onClaim });
  own.set("whereabouts", whereabouts as Plugin);
  if (openCluster) own.set("multus", createMultus({ openCluster }) as Plugin);
  return (type) => {
    const plugin = own.get(type);
    return plugin ? Promise.resolve(plugin) : findPlugin(type);
  };
}

function gaugesOf(cluster: ResidentCluster): Gauge[] {
  return [
    {
      name: "cni_daemon_watch_current",
      help: "Whether a watch reports the changes of objects now.",
      read: () =>
        cluster.watches.map(({ what, isCurrent }) =>
          [{ objects: what }, Number(isCurrent)] as const
        ),
    },
    {
      name: "cni_daemon_objects",
      help: "Objects of the cluster in memory.",
      read: () =>
        cluster.watches.map(({ what, size }) =>
          [{ objects: what }, size] as const
        ),
    },
    {
      name: "cni_daemon_events_waiting",
      help: "Events that wait to be posted.",
      read: () => [[{}, cluster.waitingEvents]],
    },
  ];
}

/** Checks after each call that the thread is where it was at the start. */
function createCheck(onStderr: (text: string) => void): () => void {
  const own = findFileId(OWN_NETNS);
  return () => {
    if (findFileId(OWN_NETNS) === own) return;
    exitAsStranded("it is in another network namespace", onStderr);
  };
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
