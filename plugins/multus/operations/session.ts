/**
 * A call of multus and its common parts: the log, the container's lock, and the API
 * client, which is closed at the end.
 *
 * @module
 */

import type { Command } from "../../../cni/call/args.ts";
import { JoinedSignal, noteYield } from "../../../base/deadline.ts";
import { describeError, ErrorCode, toCniError } from "../../../base/error.ts";
import type { AddressConflict } from "../../../cni/call/context.ts";
import { splitPath } from "../../../cni/invoke/find.ts";
import { NetworkRuntime } from "../../../libcni/api.ts";
import { AttachmentCache } from "../../../libcni/cache.ts";
import type { Call } from "../../../cni/plugin.ts";
import { withMultusError } from "../model/failure.ts";
import { OperationLog } from "./operation_log.ts";
import { ScratchCache } from "../records/scratch_cache.ts";
import {
  type K8sArgs,
  parseK8sArgs,
  parseK8sArgsLeniently,
} from "../model/k8s_args.ts";
import type { MultusConfig } from "../model/config.ts";
import {
  type Cluster,
  type OpenCluster,
  openProcessCluster,
} from "../pod/cluster.ts";
import type { PodInfo } from "../pod/pod.ts";
import { enterRecursion, isNested } from "../model/recursion.ts";

/** A call of multus. */
export interface Session {
  readonly call: Call<MultusConfig>;
  /** The pod, from CNI_ARGS. */
  readonly k8s: K8sArgs;
  /** Runs the delegates' plugins, and caches their attachments. */
  readonly runtime: NetworkRuntime;
  /** Directories to search for these plugins, in order. */
  readonly pluginDirs: readonly string[];
  /** The cache of {@linkcode runtime}. */
  readonly cache: AttachmentCache;
  /** Records the delegates of containers. */
  readonly scratch: ScratchCache;
  readonly cluster: Cluster;
  readonly log: OperationLog;
  /** Address conflicts that delegates reported and this process has not handled yet. */
  readonly conflicts: AddressConflict[];
  /** Reports whether an ADD failed because its attachment exists already. */
  readonly isSecondAdd: () => boolean;
}

/**
 * Builds the session of a call, without any I/O.
 *
 * @throws {CniError} 7 if multus was called by one of its own delegates
 */
function openSession(
  { call, k8s, log, openCluster = openProcessCluster }:
    & Pick<Session, "call" | "k8s" | "log">
    & { readonly openCluster?: OpenCluster | undefined },
): Session {
  const { config, context, args, command } = call;
  const { env } = context;
  const pluginDirs = [...new Set([config.binDir, ...splitPath(args.path)])];
  const conflicts: AddressConflict[] = [];
  let isSecondAdd = false;
  return {
    call,
    k8s,
    log,
    conflicts,
    isSecondAdd: () => isSecondAdd,
    pluginDirs,
    cache: new AttachmentCache(config.cniDir),
    scratch: new ScratchCache(config.cniDir, log),
    cluster: openCluster({
      kubeconfig: config.kubeconfig,
      env,
      podUid: k8s.podUid,
      command,
      apiTimeoutMs: config.apiTimeoutMs,
    }),
    runtime: new NetworkRuntime({
      ...context,
      env: enterRecursion(env, args),
      pluginDirs,
      cacheDir: config.cniDir,
      recordsSteps: true,
      onConflict: (conflict) => {
        conflicts.push(conflict);
        context.onConflict?.(conflict);
      },
      onAttached: () => {
        isSecondAdd = true;
        context.onAttached?.();
      },
    }),
  };
}

/** Operations that hold the container's lock. */
const EXCLUSIVE: readonly Command[] = ["ADD", "DEL"];

/** Runs an operation, and logs a line about it. */
export async function runInSession<T>(
  call: Call<MultusConfig>,
  operation: (session: Session) => Promise<T>,
  openCluster?: OpenCluster,
): Promise<T> {
  // An idle daemon has no waiting caller.
  noteYield();
  const { config, command, args, context } = call;
  const log = new OperationLog(config, context.onStderr);
  // Only ADD and CHECK require the pod.
  const isStrict = command === "ADD" || command === "CHECK";
  const parse = isStrict ? parseK8sArgs : parseK8sArgsLeniently;
  const subject = { command, args, k8s: parseK8sArgsLeniently(args.args) };
  try {
    const k8s = await withMultusError(
      { action: "error getting k8s args" },
      () => parse(args.args),
    );
    const session = openSession({ call, k8s, log, openCluster });
    await using _cluster = session.cluster;
    using _lock = EXCLUSIVE.includes(command)
      ? await lockContainer(session, args.containerId)
      : undefined;
    const result = await operation(session);
    log.report(subject);
    return result;
  } catch (error) {
    log.report(subject, error);
    throw error;
  } finally {
    await log.finish();
  }
}

/**
 * Posts the event of an error about a network, if there is an event and the pod is
 * known.
 */
export async function postErrorEvent(
  session: Session,
  pod: PodInfo | undefined,
  error: unknown,
): Promise<void> {
  if (pod === undefined) return;
  const { postEventOf } = await import("../report/events.ts");
  await postEventOf(session, pod, error);
}

/**
 * How long to wait for another operation on the container, in milliseconds. GC skips
 * a locked container, which the next GC releases.
 */
const LOCK_TIMEOUT_MS = 30_000, GC_LOCK_TIMEOUT_MS = 2000;

/**
 * Waits until no other multus process works on a container. Runtimes should ensure
 * this, but might not: a restarted runtime cleans up while its predecessor's ADD is
 * still running, and would remove what that ADD creates.
 *
 * Containers must stay detachable: DEL continues if it cannot get the lock, and GC if
 * no process can get it. A nested multus takes no lock, because the outer multus
 * holds it.
 *
 * @returns The lock, held until disposal
 * @throws {CniError} In ADD and GC: 11 if the other operation takes too long. In
 *   ADD: 5 if the lock cannot be created
 */
export async function lockContainer(
  { call, log }: Pick<Session, "call" | "log">,
  containerId: string,
): Promise<Disposable | undefined> {
  const { config, command, context, signal } = call;
  if (isNested(context.env)) return undefined;
  const { AttachmentLocks, lockDirectoryOf } = await import(
    "../../../libcni/lock.ts"
  );
  const locks = new AttachmentLocks(lockDirectoryOf(config.cniDir));
  const limitMs = command === "GC" ? GC_LOCK_TIMEOUT_MS : LOCK_TIMEOUT_MS;
  using limit = new JoinedSignal(limitMs, signal);
  const options = { signal: limit.signal, log };
  try {
    return await locks.lockContainer(containerId, options);
  } catch (error) {
    const isBusy = toCniError(error).code === ErrorCode.TryAgainLater;
    if (command === "ADD" || command === "GC" && isBusy) throw error;
    log.warn("Continuing without the lock", {
      containerId,
      error: describeError(error),
    });
    return undefined;
  }
}
