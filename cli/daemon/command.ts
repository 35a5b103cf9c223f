/**
 * The command `cni daemon`, also `multus daemon`.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { mayHaveSpans } from "../../cni/call/variables.ts";
import { describeError } from "../../base/error.ts";
import { buildIdentity } from "../../base/process/build_identity.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import type { Log } from "../../base/log/log.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { keepLeases } from "../../ipam/host_local/daemon.ts";
import { WhereaboutsService } from "../../ipam/whereabouts/daemon.ts";
import {
  MultusService,
  openDaemonLog,
  WARM_UP_NETWORK,
} from "../../plugins/multus/daemon.ts";
import { findPlugin, pluginNames } from "../../plugins/registry.ts";
import type {
  CommandCall,
  FlagValues,
  Output,
} from "../../base/command_line/command.ts";
import { runDaemon } from "../../daemon/server/daemon.ts";
import type { DaemonSpans } from "../trace/daemon_spans.ts";
import {
  createInvoker,
  type PluginLookup,
} from "../../cni/invoke/in_process.ts";
import { dispatch } from "../../cni/skel.ts";
import { NO_DAEMON } from "../../daemon/wire/daemon_socket.ts";
import type { NodeAttachment } from "../node/node_attachments.ts";
import { detach } from "./detach.ts";
import { DaemonDirectories } from "./directories.ts";
import { unmapProgramPages } from "../../ffi/libc.ts";
import { OrphanRemover } from "./orphan_remover.ts";
import type { PodMetrics } from "./pod_metrics.ts";
import type { Reconciler } from "./reconciler.ts";
import { enterHost } from "../../daemon/server/host.ts";
import { type DAEMON_FLAGS, readDaemonOptions } from "./options.ts";
import { removePidFile, writePidFile } from "../../base/service/pid_file.ts";
import { collectHeap } from "../../daemon/server/heap_collector.ts";
import {
  exitForWrongNetns,
  exitInWrongNetns,
} from "../../base/service/wrong_netns.ts";
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
  exitInWrongNetns(onStderr);
  // So that no call waits for code to be loaded.
  await Promise.all(pluginNames.map((type) => findPlugin(type)));
  const log = openDaemonLog(options.logLevel, onStderr);
  const directories = new DaemonDirectories(env);
  using multus = new MultusService({
    ...options,
    config,
    env,
    log,
    onStderr,
    attachments: () => listAttachments(directories),
  });
  using whereabouts = new WhereaboutsService(env, log);
  using _leases = keepLeases(log);
  const plain = lookupIn({
    "multus": multus.plugin,
    "whereabouts": whereabouts.plugin,
  });
  await using spans = await loadSpans(env, log);
  const lookup = spans?.lookup(plain) ?? plain;
  const end = new AbortController();
  const following = [
    multus.run(end.signal),
    whereabouts.run(end.signal),
  ];
  const roundOptions = { directories, env, lookup, log };
  const reconcilers = [
    ...options.heals ? [createOrphanRemover(roundOptions)] : [],
    ...options.repairs ? [await loadRepairer(roundOptions)] : [],
  ];
  const podMetrics = options.countsPods
    ? await loadPodMetrics(directories)
    : undefined;
  const check = options.logLevel === "debug"
    ? createCheck(onStderr)
    : undefined;
  try {
    if (options.warmsUp) {
      await warmUp({
        ...options,
        network: WARM_UP_NETWORK,
        lookup: findPlugin,
        signal,
        log,
      });
      await collectHeap();
      unmapProgramPages();
    }
    await using _dhcp = options.dhcpSocket === ""
      ? undefined
      : (await import("../../ipam/dhcp/daemon.ts"))
        .startDhcp(options.dhcpSocket, log);
    await runDaemon({
      ...options,
      ...multus.serve(lookup),
      build: buildIdentity,
      hostNetns: OWN_NETNS,
      afterCall: (call): void => {
        directories.note(call);
        for (const reconciler of reconcilers) reconciler.note(call);
        check?.();
      },
      describe: () => ({
        ...Object.fromEntries(
          reconcilers.map((reconciler) => [
            reconciler.name,
            reconciler.describe(),
          ]),
        ),
        ...multus.describe(),
      }),
      env,
      lookup,
      trace: spans?.trace,
      gauges: [
        ...multus.listGauges(),
        ...spans?.gauges ?? [],
        ...reconcilers.flatMap((reconciler) => reconciler.listGauges()),
        ...podMetrics?.listGauges() ?? [],
      ],
      beforeMetrics: podMetrics && (() => podMetrics.count()),
      onListening: (calls): void => {
        tryPidFile(pidFile, log);
        for (const reconciler of reconcilers) {
          following.push(reconciler.run(calls, end.signal));
        }
      },
      log,
      signal,
    });
  } finally {
    removePidFile(pidFile);
    end.abort();
    await Promise.all(following);
    await multus.finish(GRACE_MS);
  }
  return { json: {}, text: "" };
}

/** Time limit for events that are not posted at the end, in milliseconds. */
const GRACE_MS = 1000;

/** The values with which the rounds of the daemon run plugins. */
interface RoundOptions {
  readonly directories: DaemonDirectories;
  readonly env: Environment;
  readonly lookup: PluginLookup;
  readonly log: Log;
}

/** Creates the remover of orphans. */
function createOrphanRemover(
  { directories, env, lookup, log }: RoundOptions,
): Reconciler {
  return new OrphanRemover({
    log,
    directories,
    search: {
      env: { ...env, [NO_DAEMON]: "1" },
      hostNetns: OWN_NETNS,
      invoker: createInvoker(dispatch, lookup),
      log,
    },
  });
}

/** Lists the attachments in the caches on the node. */
async function listAttachments(
  directories: DaemonDirectories,
): Promise<NodeAttachment[]> {
  const { listNodeAttachments } = await import(
    "../node/node_attachments.ts"
  );
  return listNodeAttachments(directories);
}

/** Loads the repairer; calls and other daemons do not need its code. */
async function loadRepairer(
  { directories, env, lookup, log }: RoundOptions,
): Promise<Reconciler> {
  const { Repairer } = await import("./repairer.ts");
  return new Repairer({
    hostNetns: OWN_NETNS,
    directories,
    env: { ...env, [NO_DAEMON]: "1" },
    lookup,
    log,
  });
}

/** Loads the code that counts the traffic of pods. */
async function loadPodMetrics(
  directories: DaemonDirectories,
): Promise<PodMetrics> {
  const { PodMetrics } = await import("./pod_metrics.ts");
  return new PodMetrics({ directories, hostNetns: OWN_NETNS });
}

/** Loads the code that creates spans, if the environment enables spans. */
async function loadSpans(
  env: Environment,
  log: Log,
): Promise<DaemonSpans | undefined> {
  if (!mayHaveSpans((name) => env[name])) return undefined;
  const { startDaemonSpans } = await import("../trace/daemon_spans.ts");
  return await startDaemonSpans(env, log);
}

/** Writes the process ID. A failure does not affect calls. */
function tryPidFile(path: string, log: Log): void {
  try {
    writePidFile(path);
  } catch (error) {
    log.error("Cannot report the process ID", { error: describeError(error) });
  }
}

/** Finds plugins; plugins that use the daemon's connections come first. */
function lookupIn(own: Readonly<Record<string, Plugin>>): PluginLookup {
  return (type) => {
    const plugin = Object.hasOwn(own, type) ? own[type] : undefined;
    return plugin ? Promise.resolve(plugin) : findPlugin(type);
  };
}

/** Creates a check that the thread is still in the daemon's network namespace. */
function createCheck(onStderr: (text: string) => void): () => void {
  const own = findFileId(OWN_NETNS);
  return () => {
    if (findFileId(OWN_NETNS) === own) return;
    exitForWrongNetns("it is in another network namespace", onStderr);
  };
}
