/**
 * The cluster of a resident process: a connection to the API server, and the node's
 * pods and all network attachment definitions in memory.
 *
 * @module
 */

import type { Environment } from "../../../base/process/environment.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import type { Log } from "../../../base/log/log.ts";
import {
  type AnnotationChange,
  KubeClient,
  type PodKey,
} from "../../../kube/client.ts";
import { type Channel, openConnection } from "../../../kube/connection.ts";
import { findServer } from "../../../kube/in_cluster.ts";
import type {
  Event,
  NetworkAttachmentDefinition,
  Pod,
} from "../../../kube/types.ts";
import type { OpenCluster } from "./cluster.ts";
import { CallCluster, type ClusterParts } from "./call_cluster.ts";
import { EventQueue } from "../../../kube/resident/event_queue.ts";
import { Informer } from "../../../kube/resident/informer.ts";
import { cachedDefinition, cachedPod } from "./cached_objects.ts";
import { Upstream } from "../../../kube/resident/upstream.ts";

/** How to reach the API server, and which pods to cache. */
export interface ResidentOptions {
  /** Path of a kubeconfig; "" for the service account. */
  readonly kubeconfig: string;
  readonly env: Environment;
  /** The node's name; if it is "", no pods are cached. */
  readonly nodeName: string;
  readonly log: Pick<Log, "info" | "warn">;
}

/** The state of a watch. */
export interface WatchState {
  /** The kind of the objects. */
  readonly what: string;
  /** Whether changes are currently reported. */
  readonly isCurrent: boolean;
  /** Number of objects in memory. */
  readonly size: number;
}

/** Time limit for the replacement of an annotation, in ms. */
const REPLACE_MS = 10_000;

/** The cluster of a resident process. Dispose of it to close its connections. */
export class ResidentCluster implements Disposable {
  readonly #upstream: Upstream;
  readonly #client: KubeClient;
  readonly #events: EventQueue;
  readonly #parts: ClusterParts;

  private constructor(options: ResidentOptions) {
    const { log, nodeName } = options;
    const open = (): Promise<Channel> => connect(options);
    this.#upstream = new Upstream({ open, log });
    const client = new KubeClient(this.#upstream);
    this.#client = client;
    this.#events = new EventQueue({
      post: (event, limits) =>
        client.createEvent(event.metadata.namespace ?? "", event, limits),
      log,
    });
    this.#parts = {
      client,
      events: this.#events,
      pods: nodeName === "" ? undefined : new Informer<Pod>({
        client,
        path: "/api/v1/pods",
        fieldSelector: `spec.nodeName=${nodeName}`,
        cachedPart: cachedPod,
        what: "pods",
        log,
      }),
      definitions: new Informer<NetworkAttachmentDefinition>({
        client,
        path: "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
        cachedPart: cachedDefinition,
        what: "network attachment definitions",
        log,
      }),
    };
  }

  /**
   * Opens the cluster without any I/O. If the API server is unreachable, or a
   * kubeconfig does not exist yet, it is tried again until it succeeds.
   *
   * @returns Undefined without a kubeconfig outside of a pod
   */
  static open(options: ResidentOptions): ResidentCluster | undefined {
    const isThere = options.kubeconfig !== "" ||
      findServer(options.env) !== undefined;
    return isThere ? new ResidentCluster(options) : undefined;
  }

  /** Opens the cluster of a call, for `createMultus()`. */
  readonly openCluster: OpenCluster = (options) =>
    new CallCluster(this.#parts, options);

  /** The watches. */
  get watches(): WatchState[] {
    const { pods, definitions } = this.#parts;
    return [...pods ? [pods] : [], definitions]
      .map(({ what, isCurrent, size }) => ({ what, isCurrent, size }));
  }

  /** The node's pods; undefined if the node's name is unknown. */
  get pods(): Informer<Pod> | undefined {
    return this.#parts.pods;
  }

  /** The network attachment definitions. */
  get definitions(): Informer<NetworkAttachmentDefinition> {
    return this.#parts.definitions;
  }

  /**
   * Replaces the value of a pod's annotation, unless a different program has changed
   * it.
   *
   * @returns Whether the value was replaced
   * @throws {KubeError}
   */
  async replaceAnnotation(
    pod: PodKey,
    change: Required<AnnotationChange>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const limits = { signal, overallMs: REPLACE_MS };
    return await this.#client.replacePodAnnotation(pod, change, limits);
  }

  /** Posts an event in the background. */
  post(event: Event): void {
    this.#events.add(event);
  }

  /** Whether all watches report changes. */
  get isCurrent(): boolean {
    return this.watches.every(({ isCurrent }) => isCurrent);
  }

  /** Number of events that have not been posted yet. */
  get waitingEvents(): number {
    return this.#events.size;
  }

  /** Watches the objects and posts events, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { pods, definitions } = this.#parts;
    await Promise.all([
      pods?.run(signal),
      definitions.run(signal),
      this.#events.run(signal),
    ]);
  }

  /** Posts the remaining events after `run()`, within a time limit. */
  async finish(withinMs: number): Promise<void> {
    await this.#events.finish(withinMs);
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    this.#upstream[Symbol.dispose]();
  }
}

/** @throws {CniError} 7 */
async function connect(
  { kubeconfig, env }: ResidentOptions,
): Promise<Channel> {
  const connection = await openConnection({
    kubeconfig,
    env,
    isResident: true,
  });
  if (connection !== undefined) return connection;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "there is neither a kubeconfig nor a service account",
  );
}
