/**
 * Finding the API server.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import { Connection } from "./connection.ts";
import { readInCluster } from "./in_cluster.ts";
import { warmUpTls } from "./tls_warm_up.ts";

/** How the API is found. */
export interface ConnectionOptions {
  /** Path of a kubeconfig; without one, or "", the pod's own service account. */
  readonly kubeconfig?: string | undefined;
  /** The environment of this process. */
  readonly env: Environment;
}

/**
 * Makes everything ready; nothing is connected yet.
 *
 * @returns Undefined if there is no kubeconfig and we are in no pod
 * @throws {CniError} 7 if the kubeconfig, or what it refers to, is of no use
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
