/**
 * A client of the Kubernetes API.
 *
 * @module
 */

import { yieldIfLong } from "../base/long_wait.ts";
import { checkChange } from "../ffi/change_check.ts";
import { readAnswer } from "./answer.ts";
import type { Channel, ConnectionOptions } from "./connection.ts";
import { KubeError } from "./kube_error.ts";
import {
  type AnnotationChange,
  type Annotations,
  PodAnnotator,
  type PodKey,
  podPath,
} from "./pod_annotations.ts";
import { apiPath, type KubeRequest } from "./request.ts";
import { retry, type TimeLimits } from "./retry.ts";
import type {
  Event,
  NetworkAttachmentDefinition,
  ObjectList,
  Pod,
  ResourceClaim,
  ResourceSlice,
  WatchEvent,
} from "./types.ts";
import { openWatch, type WatchOptions } from "./watch.ts";

export type {
  AnnotationChange,
  Annotations,
  KubeRequest,
  PodKey,
  WatchOptions,
};

export type RequestOptions = TimeLimits;

/** Selects the objects of a LIST. */
export interface ListOptions extends RequestOptions {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /**
   * The minimum version of the list; `0` accepts any version from the server's
   * cache. The newest version by default.
   */
  readonly resourceVersion?: string | undefined;
  /** Objects per page; 500 by default, 0 for no limit. */
  readonly limit?: number | undefined;
}

/** Configures how the API server is found. */
export type ClientOptions = ConnectionOptions;

/**
 * Opens a client without sending a request.
 *
 * @param limits Defaults for requests without limits
 * @returns Undefined without a kubeconfig outside of a pod
 * @throws {CniError} 7 if the kubeconfig, or a file it refers to, is unusable
 */
export async function openKubeClient(
  options: ClientOptions,
  limits?: TimeLimits,
): Promise<KubeClient | undefined> {
  const { openConnection } = await import("./connection.ts");
  const connection = await openConnection(options);
  return connection && new KubeClient(connection, limits);
}

/** Sends requests to one API server. Dispose of it to close its connections. */
export class KubeClient implements Disposable {
  readonly #channel: Channel;
  readonly #limits: TimeLimits;
  readonly #annotator = new PodAnnotator(this.request.bind(this));

  /**
   * Creates a client, which takes ownership of the channel.
   *
   * @param limits Defaults for requests without limits
   * @internal See {@linkcode openKubeClient}
   */
  constructor(channel: Channel, limits: TimeLimits = {}) {
    this.#channel = channel;
    this.#limits = limits;
  }

  /**
   * Reads a pod.
   *
   * @throws {KubeError}
   */
  async getPod(
    namespace: string,
    name: string,
    options: RequestOptions = {},
  ): Promise<Pod> {
    const path = podPath({ namespace, name });
    return await this.request({ path }, options);
  }

  /**
   * Reads a network attachment definition.
   *
   * @throws {KubeError}
   */
  async getNetworkAttachmentDefinition(
    namespace: string,
    name: string,
    options: RequestOptions = {},
  ): Promise<NetworkAttachmentDefinition> {
    const names = [namespace, "network-attachment-definitions", name];
    const path = apiPath("/apis/k8s.cni.cncf.io/v1", "namespaces", ...names);
    return await this.request({ path }, options);
  }

  /**
   * Reads a resource claim.
   *
   * @throws {KubeError}
   */
  async getResourceClaim(
    namespace: string,
    name: string,
    options: RequestOptions = {},
  ): Promise<ResourceClaim> {
    const names = [namespace, "resourceclaims", name];
    const path = apiPath(RESOURCES, "namespaces", ...names);
    return await this.request({ path }, options);
  }

  /**
   * Sets annotations of a pod, and keeps its other annotations.
   *
   * @throws {KubeError} 409 if the pod has another UID, 404 if it does not
   *   exist
   */
  setPodAnnotations(
    pod: PodKey,
    annotations: Annotations,
    options: RequestOptions = {},
  ): Promise<void> {
    const limits = { ...this.#limits, ...options };
    return this.#annotator.set(pod, annotations, limits);
  }

  /**
   * Removes an annotation of a pod, unless its value has changed, or the pod
   * was deleted.
   *
   * @throws {KubeError}
   */
  removePodAnnotation(
    pod: PodKey,
    key: string,
    value: string,
    options: RequestOptions = {},
  ): Promise<void> {
    const limits = { ...this.#limits, ...options };
    return this.#annotator.remove(pod, key, value, limits);
  }

  /**
   * Replaces the value of an annotation of a pod, unless another program has
   * changed it.
   *
   * @returns Whether it is replaced; false if the value has changed, or the pod was
   *   deleted
   * @throws {KubeError}
   */
  replacePodAnnotation(
    pod: PodKey,
    change: Required<AnnotationChange>,
    options: RequestOptions = {},
  ): Promise<boolean> {
    const limits = { ...this.#limits, ...options };
    return this.#annotator.replace(pod, change, limits);
  }

  /**
   * Creates an event.
   *
   * @throws {KubeError}
   */
  async createEvent(
    namespace: string,
    event: Event,
    options: RequestOptions = {},
  ): Promise<void> {
    const path = apiPath("/api/v1", "namespaces", namespace, "events");
    await this.request({ method: "POST", path, body: event }, options);
  }

  /**
   * Lists the devices of a driver.
   *
   * @param selector Without a node, it selects the devices of all nodes
   * @throws {KubeError}
   */
  async listResourceSlices(
    { driver, nodeName }: {
      readonly driver: string;
      readonly nodeName?: string | undefined;
    },
    options: RequestOptions = {},
  ): Promise<ResourceSlice[]> {
    const selectors = [`spec.driver=${driver}`];
    if (nodeName) selectors.unshift(`spec.nodeName=${nodeName}`);
    const fieldSelector = selectors.join(",");
    const path = apiPath(RESOURCES, "resourceslices");
    const list = await this.list<ResourceSlice>(path, {
      ...options,
      fieldSelector,
    });
    return [...list.items ?? []];
  }

  /**
   * Sends a request, and repeats it like {@linkcode retry}.
   *
   * @returns The JSON of the answer
   * @throws {KubeError}
   */
  async request<T>(
    request: KubeRequest,
    options: RequestOptions = {},
  ): Promise<T> {
    // Not part of the request's time limit: it may run a program.
    await yieldIfLong(() =>
      this.#channel.authenticate(request, options.signal)
    );
    const { method = "GET" } = request;
    return await retry(
      async (signal) => {
        if (method !== "GET") checkChange();
        return await readAnswer<T>(await this.#channel.send(request, signal));
      },
      method,
      { ...this.#limits, ...options },
    );
  }

  /**
   * Lists the objects of a kind.
   *
   * @returns All objects, with the version at which a watch can start
   * @throws {KubeError} As {@linkcode listPages}
   */
  async list<T>(
    path: string,
    options: ListOptions = {},
  ): Promise<ObjectList<T>> {
    const items: T[] = [];
    let last: ObjectList<T> = {};
    for await (last of this.listPages<T>(path, options)) {
      items.push(...last.items ?? []);
    }
    return { ...last, items };
  }

  /**
   * Lists the objects of a kind, page by page. Each page is a separate request
   * with its own time limits; all pages have the same version. If the objects of a
   * page are too large for one answer, it is read again as shorter pages.
   *
   * @throws {KubeError} 410 if the server has since compacted that version:
   *   list again
   */
  async *listPages<T>(
    path: string,
    options: ListOptions = {},
  ): AsyncGenerator<ObjectList<T>, void> {
    const { labelSelector, fieldSelector, ...limits } = options;
    const { limit: wanted = 500 } = options;
    let limit = wanted;
    let position: Readonly<Record<string, string | undefined>> = {
      resourceVersion: limits.resourceVersion,
    };
    for (;;) {
      const query = { labelSelector, fieldSelector, limit, ...position };
      let page: ObjectList<T>;
      try {
        page = await this.request<ObjectList<T>>({ path, query }, limits);
      } catch (error) {
        const { resourceVersion = "" } = position;
        // The server does not page a list with a version.
        const isTooLong = error instanceof KubeError && error.isTooLong;
        if (!isTooLong || limit <= 1 || resourceVersion !== "") throw error;
        limit = Math.ceil(limit / SHORTER);
        continue;
      }
      limit = Math.min(2 * limit, wanted);
      yield page;
      if (!page.metadata?.continue) return;
      position = { continue: page.metadata.continue };
    }
  }

  /**
   * Watches the objects of a kind until the server ends the watch.
   *
   * @throws {KubeError} 410 if the version is too old: list again
   */
  watch<T>(
    path: string,
    options: WatchOptions,
  ): AsyncGenerator<WatchEvent<T>, void> {
    return openWatch<T>(this.#channel, path, options);
  }

  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]();
  }
}

/** Divisor of the page length if a page is too long for an answer. */
const SHORTER = 4;

/** Path of the API group for dynamic resource allocation. */
const RESOURCES = "/apis/resource.k8s.io/v1";
