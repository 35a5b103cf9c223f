/**
 * Finds the API server and opens a connection.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import { Connection } from "./connection.ts";
import { readInCluster } from "./in_cluster.ts";
import { warmUpTls } from "./tls_warm_up.ts";

/** Configures how the API server is found. */
export interface ConnectionOptions {
  /**
   * Path of a kubeconfig; if absent or "", the pod's service account is used.
   */
  readonly kubeconfig?: string | undefined;
  /** This process's environment. */
  readonly env: Environment;
}

/**
 * Prepares the transport and the credentials, without connecting.
 *
 * @returns Undefined without a kubeconfig outside of a pod
 * @throws {CniError} 7 if the kubeconfig, or a file it refers to, is unusable
 */
export async function openConnection(
  { kubeconfig, env }: ConnectionOptions,
): Promise<Connection | undefined> {
  if (!kubeconfig) {
    const access = readInCluster(env);
    if (access === undefined) return undefined;
    warmUpTls();
    return await Connection.open(access, env);
  }
  warmUpTls();
  const { readKubeconfig } = await import("./kubeconfig.ts");
  const access = await readKubeconfig(kubeconfig, env);
  return await Connection.open(access, env);
}
