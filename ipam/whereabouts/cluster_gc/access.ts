/**
 * Finds the cluster of `cni cluster-gc`, and the namespace of its pools.
 *
 * @module
 */

import { join } from "@std/path/posix";
import type { Environment } from "../../../base/process/environment.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import type { ApiClient } from "../api.ts";
import { DEFAULT_NAMESPACE, openOwnClient } from "../session.ts";
import { readFlatFile } from "../settings.ts";
import { findServer } from "../../../kube/in_cluster.ts";
import { readNamespace } from "../../../kube/kubeconfig.ts";

/** How to find the cluster. */
export interface AccessOptions {
  /** Path of a kubeconfig. */
  readonly kubeconfig?: string | undefined;
  /** Namespace of the pools. */
  readonly namespace?: string | undefined;
  readonly env: Environment;
}

/** A cluster with pools. */
export interface PoolAccess {
  readonly client: ApiClient;
  readonly namespace: string;
}

/**
 * Opens a client. The kubeconfig is the given one, that of `KUBECONFIG`, the
 * service account of a pod, that of whereabouts' flat file, or
 * `~/.kube/config`.
 *
 * @throws {CniError} 7 if it is missing or unusable
 */
export async function openPools(options: AccessOptions): Promise<PoolAccess> {
  const { env } = options;
  const kubeconfig = findKubeconfig(options);
  const client = await openOwnClient({ kubeconfig, env });
  if (client === undefined) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "no cluster: name a kubeconfig with --kubeconfig or KUBECONFIG",
    );
  }
  const namespace = options.namespace || env["WHEREABOUTS_NAMESPACE"] ||
    (kubeconfig && await readNamespace(kubeconfig)) || DEFAULT_NAMESPACE;
  return { client, namespace };
}

function findKubeconfig(
  { kubeconfig, env }: AccessOptions,
): string | undefined {
  const named = kubeconfig || env["KUBECONFIG"]?.split(":")[0];
  if (named || findServer(env) !== undefined) return named;
  const flat = readFlatFile()?.kubernetes?.kubeconfig;
  const home = join(env["HOME"] || "/", ".kube/config");
  const isThere = ifPossible(() => Deno.statSync(home).isFile);
  return flat ?? (isThere ? home : undefined);
}
