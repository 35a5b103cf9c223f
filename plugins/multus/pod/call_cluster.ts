/**
 * The resident cluster for a single call of multus.
 *
 * @module
 */

import { CniError } from "../../../base/error.ts";
import { JoinedSignal } from "../../../base/deadline.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import type { RequestOptions } from "../../../kube/client.ts";
import type { NetworkAttachmentDefinition, Pod } from "../../../kube/types.ts";
import {
  type Cluster,
  type ClusterClient,
  type ClusterOptions,
  limitsOf,
  openProcessCluster,
} from "./cluster.ts";
import type { EventQueue } from "../../../kube/resident/event_queue.ts";
import type {
  CachedObject,
  Informer,
} from "../../../kube/resident/informer.ts";

/**
 * How long ADD waits for a watch to report its pod, in milliseconds. The kubelet,
 * which started the pod, has received it through its own watch.
 */
const NEWS_MS = 250;
/**
 * Time limit of a request for an object that is also in memory, but might be
 * outdated, in milliseconds.
 */
const SHORT_MS = 700;

/** The parts of the resident cluster. */
export interface ClusterParts {
  /** The node's pods; undefined if the node's name is unknown. */
  readonly pods: Informer<Pod> | undefined;
  readonly definitions: Informer<NetworkAttachmentDefinition>;
  readonly events: Pick<EventQueue, "add">;
  readonly client: ClusterClient;
}

/**
 * Answers from memory if possible, otherwise with requests to the API server. If the
 * server does not accept the resident credentials, the call's own credentials are
 * used.
 */
export class CallCluster implements Cluster, ClusterClient {
  readonly isConfigured = true;
  readonly #parts: ClusterParts;
  readonly #options: ClusterOptions;
  readonly #own: Cluster;

  /** Creates a cluster without any I/O. */
  constructor(parts: ClusterParts, options: ClusterOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#own = openProcessCluster(options);
  }

  /** Returns this. */
  client(): Promise<ClusterClient> {
    return Promise.resolve(this);
  }

  /** Does nothing, because the connection is open. */
  prepare(): void {}

  /** Reads the pod with the call's UID. Waits briefly if the pod is not in memory. */
  async getPod(
    namespace: string,
    name: string,
    options: RequestOptions = {},
  ): Promise<Pod> {
    const { pods } = this.#parts;
    const { podUid = "", command } = this.#options;
    const waitMs = command === "ADD" && podUid !== "" ? NEWS_MS : 0;
    using limit = new JoinedSignal(waitMs, options.signal);
    const cached = await pods?.waitFor(
      { namespace, name },
      // A new pod with the same name might have replaced the pod in memory.
      ({ uids }) => uids.includes(podUid),
      limit.signal,
    );
    return await this.#preferServer<Pod>(
      { cached, isCurrent: pods?.isCurrent ?? false },
      (client, limits) => client.getPod(namespace, name, limits),
      options,
    );
  }

  /** Reads a network attachment definition. */
  async getNetworkAttachmentDefinition(
    namespace: string,
    name: string,
    options: RequestOptions = {},
  ): Promise<NetworkAttachmentDefinition> {
    const { definitions } = this.#parts;
    const cached = definitions.find(namespace, name);
    return await this.#preferServer<NetworkAttachmentDefinition>(
      { cached, isCurrent: definitions.isCurrent },
      (client, limits) =>
        client.getNetworkAttachmentDefinition(namespace, name, limits),
      options,
    );
  }

  /** Sends a request to the API server. */
  getResourceClaim(
    ...[namespace, name, options]: Parameters<ClusterClient["getResourceClaim"]>
  ): ReturnType<ClusterClient["getResourceClaim"]> {
    return this.#ask(
      (client, limits) => client.getResourceClaim(namespace, name, limits),
      options,
    );
  }

  /** Sends a request to the API server. */
  listResourceSlices(
    ...[selector, options]: Parameters<ClusterClient["listResourceSlices"]>
  ): ReturnType<ClusterClient["listResourceSlices"]> {
    return this.#ask(
      (client, limits) => client.listResourceSlices(selector, limits),
      options,
    );
  }

  /** Writes to the API server. */
  setPodAnnotations(
    ...[pod, annotations, options]: Parameters<
      ClusterClient["setPodAnnotations"]
    >
  ): Promise<void> {
    return this.#ask(
      (client, limits) => client.setPodAnnotations(pod, annotations, limits),
      options,
    );
  }

  /** Writes to the API server. */
  removePodAnnotation(
    ...[pod, key, value, options]: Parameters<
      ClusterClient["removePodAnnotation"]
    >
  ): Promise<void> {
    return this.#ask(
      (client, limits) => client.removePodAnnotation(pod, key, value, limits),
      options,
    );
  }

  /** Queues an event. */
  createEvent(
    ...[_namespace, event]: Parameters<ClusterClient["createEvent"]>
  ): Promise<void> {
    this.#parts.events.add(event);
    return Promise.resolve();
  }

  /**
   * Without a watch, memory can be outdated, so a response of the server is
   * preferred.
   */
  async #preferServer<T>(
    { cached, isCurrent }: {
      readonly cached: CachedObject | undefined;
      readonly isCurrent: boolean;
    },
    get: (client: ClusterClient, limits: RequestOptions) => Promise<T>,
    options: RequestOptions,
  ): Promise<T> {
    if (cached === undefined) return await this.#ask(get, options);
    if (!isCurrent) {
      try {
        const { signal } = options;
        return await this.#ask(get, { signal, overallMs: SHORT_MS });
      } catch (error) {
        if (options.signal?.aborted || !isTrouble(error)) throw error;
      }
    }
    return JSON.parse(cached.text);
  }

  async #ask<T>(
    request: (client: ClusterClient, limits: RequestOptions) => Promise<T>,
    options: RequestOptions = {},
  ): Promise<T> {
    const limits = { ...limitsOf(this.#options), ...options };
    try {
      return await request(this.#parts.client, limits);
    } catch (error) {
      if (!isRefused(error) || !this.#own.isConfigured) throw error;
      return await request(await this.#own.client(), limits);
    }
  }

  /** Closes the connections with the call's own credentials, if any. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own[Symbol.asyncDispose]();
  }
}

/** Reports whether the resident credentials are unusable. */
function isRefused(error: unknown): boolean {
  return error instanceof CniError ||
    error instanceof KubeError && error.status === 401;
}

/** Reports whether the same request could succeed later. */
function isTrouble(error: unknown): boolean {
  if (!(error instanceof KubeError)) return error instanceof CniError;
  const { status } = error;
  return status === 0 || status === 401 || status === 429 || status >= 500;
}
