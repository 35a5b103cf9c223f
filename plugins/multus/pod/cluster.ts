/**
 * The way to the Kubernetes API, taken when something is asked of it.
 *
 * @module
 */

import type { Environment } from "../../../cni/args.ts";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import type { Channel } from "../../../kube/channel.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { SOCKET_NAME } from "./daemon_protocol.ts";

/** How the API is found. */
export interface ClusterOptions {
  /** Path of a kubeconfig; undefined for in-cluster credentials, if there are any. */
  readonly kubeconfig?: string | undefined;
  readonly env: Environment;
  /** Folder of the socket of the daemon, which may be there or not. */
  readonly daemonSocketDir?: string | undefined;
  /** UID of the pod that the call is about, if it is known. */
  readonly podUid?: string | undefined;
  /** Time limit of a request, in milliseconds; that of `kube/retry.ts` by default. */
  readonly overallMs?: number | undefined;
}

/**
 * A cluster that may not be there: without Kubernetes, multus attaches to the
 * networks of its configuration and asks nobody.
 */
export class Cluster implements AsyncDisposable {
  readonly #options: ClusterOptions;
  #client: Promise<KubeClient> | undefined;

  /** Remembers where the API would be; nothing is read yet. */
  constructor(options: ClusterOptions) {
    this.#options = options;
  }

  /** Whether there is an API to be asked. */
  get isConfigured(): boolean {
    const { kubeconfig, env } = this.#options;
    return kubeconfig !== undefined ||
      Boolean(env["KUBERNETES_SERVICE_HOST"] && env["KUBERNETES_SERVICE_PORT"]);
  }

  /**
   * Returns the client, the same each time. With a daemon, what is wrong with
   * the kubeconfig shows when the daemon cannot help.
   *
   * @throws {CniError} 7 if there is no API, or the kubeconfig is of no use
   */
  client(): Promise<KubeClient> {
    return this.#client ??= this.#open();
  }

  /**
   * Opens the client while something else is done: the first use of TLS takes
   * some 30 ms of another thread. What is wrong shows when the client is used.
   */
  prepare(): void {
    this.client().catch(() => {});
  }

  async #open(): Promise<KubeClient> {
    const channel = await this.#openChannel();
    // Loaded here: most of the start-up time of a call would be this.
    const { KubeClient } = await import("../../../kube/client.ts");
    const { overallMs } = this.#options;
    return new KubeClient(channel, { overallMs });
  }

  async #openChannel(): Promise<Channel> {
    const { daemonSocketDir, podUid = "" } = this.#options;
    const socketPath = daemonSocketDir && `${daemonSocketDir}/${SOCKET_NAME}`;
    if (!socketPath || !isOurSocket(socketPath)) return await this.#connect();
    const { DaemonChannel } = await import("./daemon_channel.ts");
    const openDirect = (): Promise<Channel> => this.#connect();
    return new DaemonChannel({ socketPath, podUid, openDirect });
  }

  async #connect(): Promise<Channel> {
    const { openConnection } = await import("../../../kube/open_connection.ts");
    const connection = await openConnection(this.#options);
    if (connection !== undefined) return connection;
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "Cannot ask Kubernetes: there is neither a kubeconfig nor a service account",
    );
  }

  /** Closes the connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    const [opened] = await Promise.allSettled([this.#client]);
    if (opened.status === "fulfilled") opened.value?.[Symbol.dispose]();
  }
}

/** One of somebody else could tell a pod any network. */
function isOurSocket(path: string): boolean {
  try {
    const { isSocket, uid } = Deno.statSync(path);
    return isSocket === true && (uid === 0 || uid === Deno.uid());
  } catch {
    return false;
  }
}
