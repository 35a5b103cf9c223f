/**
 * Files with which daemons reach the API server of a node.
 *
 * @module
 */

/** The file that exists once the API server listens; it has a {@linkcode ClusterAccess}. */
export const READY = "cluster.json";

/** How to reach the API server. */
export interface ClusterAccess {
  readonly kubeconfig: string;
  /** Directory of a service account. */
  readonly account: string;
  /** The variables by which a pod finds it. */
  readonly environment: Readonly<Record<string, string>>;
}
