/**
 * Access to the Kubernetes API, opened for the first request.
 *
 * @module
 */

import type { Command } from "../../../cni/call/args.ts";
import type { Environment } from "../../../base/process/environment.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import type { KubeClient } from "../../../kube/client.ts";

/** How to reach the API server. */
export interface ClusterOptions {
  /** Path of a kubeconfig; undefined for in-cluster credentials, if any. */
  readonly kubeconfig?: string | undefined;
  readonly env: Environment;
  /** UID of the call's pod, if known. */
  readonly podUid?: string | undefined;
  /** The call's command, which determines the time limits of requests. */
  readonly command: Command;
  /**
   * Time limit of a request in ADD, in milliseconds; the client's default if
   * undefined.
   */
  readonly apiTimeoutMs?: number | undefined;
}

/**
 * Time limit of a request in commands other than ADD, in milliseconds: DEL and GC
 * work without a response, and STATUS must not keep a runtime waiting.
 */
const SHORT_MS = 2500;

/** Returns the time limits of a command's requests. */
export function limitsOf(
  { command, apiTimeoutMs }: Pick<ClusterOptions, "command" | "apiTimeoutMs">,
): { readonly overallMs?: number | undefined } {
  return { overallMs: command === "ADD" ? apiTimeoutMs : SHORT_MS };
}

/** The API requests that multus uses. */
export type ClusterClient = Pick<
  KubeClient,
  | "getPod"
  | "getNetworkAttachmentDefinition"
  | "getResourceClaim"
  | "listResourceSlices"
  | "setPodAnnotations"
  | "removePodAnnotation"
  | "createEvent"
>;

/**
 * The cluster of a call, if any: without Kubernetes, multus attaches pods to the
 * networks of its configuration.
 */
export interface Cluster extends AsyncDisposable {
  /** Whether an API server is configured. */
  readonly isConfigured: boolean;
  /**
   * Returns the client.
   *
   * @throws {CniError} 7 without an API server, or if the kubeconfig is unusable
   */
  client(): Promise<ClusterClient>;
  /** Opens the client in the background; {@linkcode client} reports errors. */
  prepare(): void;
}

/** Opens the cluster of a call, without any I/O. */
export type OpenCluster = (options: ClusterOptions) => Cluster;

/** Opens a cluster with a separate client. */
export function openProcessCluster(options: ClusterOptions): Cluster {
  return new ProcessCluster(options);
}

/** A cluster for the duration of a call. */
class ProcessCluster implements Cluster {
  readonly #options: ClusterOptions;
  #client: Promise<KubeClient> | undefined;

  /** Keeps the options, without any I/O. */
  constructor(options: ClusterOptions) {
    this.#options = options;
  }

  /** Whether an API server is configured. */
  get isConfigured(): boolean {
    const { kubeconfig, env } = this.#options;
    return kubeconfig !== undefined ||
      Boolean(env["KUBERNETES_SERVICE_HOST"] && env["KUBERNETES_SERVICE_PORT"]);
  }

  /** Returns the client, the same for every call. */
  client(): Promise<KubeClient> {
    return this.#client ??= this.#open();
  }

  /** Opens the client in the background; {@linkcode client} reports errors. */
  prepare(): void {
    this.client().catch(() => {});
  }

  async #open(): Promise<KubeClient> {
    // Lazy, because loading this takes most of a call's start-up time.
    const { openKubeClient } = await import("../../../kube/client.ts");
    const { kubeconfig, env } = this.#options;
    const limits = limitsOf(this.#options);
    const client = await openKubeClient({ kubeconfig, env }, limits);
    if (client !== undefined) return client;
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "Cannot query Kubernetes: there is neither a kubeconfig nor a service account",
    );
  }

  /** Closes the connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    const [opened] = await Promise.allSettled([this.#client]);
    if (opened.status === "fulfilled") opened.value?.[Symbol.dispose]();
  }
}
