/**
 * State shared within one call of multus.
 *
 * @module
 */

import { splitPath } from "../../cni/invoke/find.ts";
import { AttachmentCache } from "../../cni/libcni/cache.ts";
import { NetworkRuntime } from "../../cni/libcni/api.ts";
import type { Call } from "../../cni/plugin.ts";
import {
  type Cluster,
  type OpenCluster,
  openProcessCluster,
} from "./pod/cluster.ts";
import type { MultusConfig } from "./model/config.ts";
import type { K8sArgs } from "./model/k8s_args.ts";
import type { OperationLog } from "./log/operation_log.ts";
import { ScratchCache } from "./memory/scratch_cache.ts";
import { enterRecursion } from "./model/self_guard.ts";

/** One call of multus. */
export interface Session {
  readonly call: Call<MultusConfig>;
  /** The pod, from CNI_ARGS. */
  readonly k8s: K8sArgs;
  /** Runs the delegates' plugins, and caches their attachments. */
  readonly runtime: NetworkRuntime;
  /** Folders to search for these plugins, in order. */
  readonly pluginDirs: readonly string[];
  /** The cache of {@linkcode runtime}. */
  readonly cache: AttachmentCache;
  /** Records the delegates of containers. */
  readonly scratch: ScratchCache;
  readonly cluster: Cluster;
  readonly log: OperationLog;
}

/**
 * Builds the session of a call, without any I/O.
 *
 * @throws {CniError} 7 if multus was called by one of its own delegates
 */
export function openSession(
  { call, k8s, log, openCluster = openProcessCluster }:
    & Pick<Session, "call" | "k8s" | "log">
    & { readonly openCluster?: OpenCluster | undefined },
): Session {
  const { config, surroundings, args, command } = call;
  const { env } = surroundings;
  const pluginDirs = [...new Set([config.binDir, ...splitPath(args.path)])];
  return {
    call,
    k8s,
    log,
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
      ...surroundings,
      env: enterRecursion(env, args),
      pluginDirs,
      cacheDir: config.cniDir,
    }),
  };
}
