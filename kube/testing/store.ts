/**
 * Where the API server of the tests keeps its objects, and what has happened
 * to them.
 *
 * @module
 */

import {
  apiVersionOf,
  isCustom,
  type KubeObject,
  type NewObject,
  type Resource,
  type ResourceName,
  resources,
} from "./objects.ts";

const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/** A change of an object. */
export interface Change {
  readonly version: number;
  readonly resource: ResourceName;
  /** The current object; the last one if it has been removed. */
  readonly object: KubeObject;
  /** As it was before; undefined if it is new. */
  readonly before: KubeObject | undefined;
  readonly isRemoval: boolean;
}

/** The changes of one resource that a watch can still tell. */
export interface WatchWindow {
  /** A watch from an earlier version is refused. */
  readonly oldest: number;
  readonly changes: readonly Change[];
}

/**
 * Objects by resource, namespace and name. Copies go in and come out.
 *
 * There are two memories of the past, as in a real server. The watch cache knows
 * the last few changes of each resource since the server started; etcd knows
 * every version since the last compaction.
 *
 * Source: k8s.io/apiserver pkg/storage/cacher/watch_cache.go
 * `getAllEventsSinceLocked`.
 */
export class ObjectStore {
  /**
   * How many changes of a resource the watch cache holds: a watch from before
   * them gets 410. Source: `defaultLowerBoundCapacity`.
   */
  watchCapacity = 100;
  readonly #objects = new Map<string, KubeObject>();
  readonly #listeners = new Set<(change: Change) => void>();
  #changes: Change[] = [];
  #version = 1;
  #compacted = 1;
  #cachedSince = 1;

  /** The version of the newest change. */
  get version(): number {
    return this.#version;
  }

  /** The oldest version that a paged list can go on with. */
  get compactedVersion(): number {
    return this.#compacted;
  }

  /**
   * Returns an object, or undefined.
   *
   * @param namespace Empty if the resource has none
   */
  find(
    resource: ResourceName,
    namespace: string,
    name: string,
  ): KubeObject | undefined {
    return structuredClone(this.#objects.get(key(resource, namespace, name)));
  }

  /** Lists the objects of a resource by namespace and name, as etcd has them. */
  list(resource: ResourceName): KubeObject[] {
    const prefix = `${resource}/`;
    const entries = [...this.#objects].filter(([key]) =>
      key.startsWith(prefix)
    );
    const sorted = entries.sort(([a], [b]) => a < b ? -1 : 1);
    return sorted.map(([, object]) => structuredClone(object));
  }

  /**
   * Puts an object in the place of any of its name, whoever put that there.
   * What every object has is filled in. If it says that it is another object
   * by its UID, the one that was there is removed first.
   */
  put(resource: ResourceName, given: NewObject): KubeObject {
    const { metadata } = given;
    const isNamespaced = resources[resource].isNamespaced;
    const namespace = isNamespaced ? metadata.namespace ?? "default" : "";
    const place = key(resource, namespace, metadata.name);
    const old = this.#objects.get(place)?.metadata.uid;
    const isOther = metadata.uid !== undefined && metadata.uid !== old;
    if (isOther) this.#removeAt(place, resource);
    const before = this.#objects.get(place);
    const version = this.#version + 1;
    const object = complete(resources[resource], given, { before, version });
    if (isNamespaced) this.#ensureNamespace(namespace);
    this.#objects.set(place, object);
    this.#tell({ version, resource, object, before, isRemoval: false });
    return structuredClone(object);
  }

  /** Removes an object and returns it, if there is one. */
  remove(
    resource: ResourceName,
    namespace: string,
    name: string,
  ): KubeObject | undefined {
    const place = key(resource, namespace, name);
    const removed = this.#removeAt(place, resource);
    return structuredClone(removed);
  }

  /** Lists the objects of a resource as they were at a version, which must not be compacted. */
  listAt(resource: ResourceName, version: number): KubeObject[] {
    const objects = new Map(
      this.list(resource).map((object) => [placeOf(object), object]),
    );
    for (const change of this.#changes.toReversed()) {
      if (change.version <= version || change.resource !== resource) continue;
      const { object, before } = change;
      if (before === undefined) objects.delete(placeOf(object));
      else objects.set(placeOf(object), structuredClone(before));
    }
    const sorted = [...objects].sort(([a], [b]) => a < b ? -1 : 1);
    return sorted.map(([, object]) => object);
  }

  /** Forgets all earlier versions: watches and lists that go on from one get 410. */
  compact(): void {
    this.#changes = [];
    this.#compacted = this.#version;
    this.restartWatchCache();
  }

  /** Empties the watch cache, as a restart of the server does. */
  restartWatchCache(): void {
    this.#cachedSince = this.#version;
  }

  /** Returns the watch cache of a resource. */
  watchWindowOf(resource: ResourceName): WatchWindow {
    const known = this.#changes.filter((change) =>
      change.resource === resource && change.version > this.#cachedSince
    );
    const changes = known.slice(-this.watchCapacity);
    const [first] = changes;
    const isWhole = changes.length === known.length || first === undefined;
    return {
      oldest: isWhole ? this.#cachedSince : first.version - 1,
      changes,
    };
  }

  /** Reports every change from now on. @returns Ends the subscription */
  listen(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Puts a pod, into namespace `default` if it does not say. It is pending on
   * node `node1` unless it says otherwise. One of its name is written over
   * and stays the same pod, unless the new one has another UID.
   *
   * @returns The current pod
   */
  putPod(pod: NewObject): KubeObject {
    return this.put("pods", pod);
  }

  /** Returns a pod, or undefined. */
  pod(namespace: string, name: string): KubeObject | undefined {
    return this.find("pods", namespace, name);
  }

  /** Removes a pod if it exists. */
  removePod(namespace: string, name: string): void {
    this.remove("pods", namespace, name);
  }

  /** Returns what a pod's annotation `network-status` says; undefined if it has none. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  networkStatus(namespace: string, name: string): any {
    const text = this.pod(namespace, name)?.metadata
      .annotations?.[NETWORK_STATUS];
    return text === undefined ? undefined : JSON.parse(text);
  }

  /**
   * Puts a network attachment definition.
   *
   * @param config Text, or an object; none if undefined
   */
  putNad(
    namespace: string,
    name: string,
    config?: string | object,
    annotations: Record<string, string> = {},
  ): KubeObject {
    const text = typeof config === "object" ? JSON.stringify(config) : config;
    return this.put("network-attachment-definitions", {
      metadata: { namespace, name, annotations },
      spec: text === undefined ? {} : { config: text },
    });
  }

  /** Removes a network attachment definition if it exists. */
  removeNad(namespace: string, name: string): void {
    this.remove("network-attachment-definitions", namespace, name);
  }

  /** Puts a resource claim, into namespace `default` if it does not say. */
  putClaim(claim: NewObject): KubeObject {
    return this.put("resourceclaims", claim);
  }

  /** Puts a resource slice. */
  putSlice(slice: NewObject): KubeObject {
    return this.put("resourceslices", slice);
  }

  /** Lists the names of a resource's objects in order. */
  listNames(resource: ResourceName): string[] {
    return this.list(resource).map(({ metadata }) => metadata.name);
  }

  /** Lists the events, in order of arrival. */
  get events(): KubeObject[] {
    const version = ({ metadata }: KubeObject): number =>
      Number(metadata.resourceVersion);
    return this.list("events").sort((a, b) => version(a) - version(b));
  }

  /** Lists the texts of the events, as `Normal AddedInterface Add eth0 ...`. */
  get eventTexts(): string[] {
    return this.events.map((event) =>
      `${event["type"]} ${event["reason"]} ${event["message"]}`
    );
  }

  #removeAt(place: string, resource: ResourceName): KubeObject | undefined {
    const before = this.#objects.get(place);
    if (before === undefined) return undefined;
    this.#objects.delete(place);
    const version = this.#version + 1;
    const object = structuredClone(before);
    object.metadata.resourceVersion = String(version);
    this.#tell({ version, resource, object, before, isRemoval: true });
    return object;
  }

  /** Creates it without a version, so that the versions of the others stay in order. */
  #ensureNamespace(name: string): void {
    const place = key("namespaces", "", name);
    if (this.#objects.has(place)) return;
    const given = { metadata: { name }, status: { phase: "Active" } };
    const { version } = this;
    const namespace = { before: undefined, version };
    this.#objects.set(place, complete(resources.namespaces, given, namespace));
  }

  #tell(change: Change): void {
    this.#version = change.version;
    this.#changes.push(change);
    for (const listener of this.#listeners) listener(change);
  }
}

/** Names an object within its resource, in the order in which etcd lists. */
export function placeOf(
  { metadata: { namespace = "", name } }: KubeObject,
): string {
  return `${namespace}/${name}`;
}

function key(resource: string, namespace: string, name: string): string {
  return `${resource}/${namespace}/${name}`;
}

/** Fills in what the server does. An object that is replaced stays the same one. */
function complete(
  resource: Resource,
  given: NewObject,
  { before, version }: { before: KubeObject | undefined; version: number },
): KubeObject {
  const { name, kind, isNamespaced } = resource;
  const { namespace = "default", ...metadata } = given.metadata;
  const generation = isCustom(resource)
    ? { generation: nextGeneration(resource, given, before) }
    : {};
  const now = new Date().toISOString().replace(/\.\d+/, "");
  return structuredClone({
    ...given,
    apiVersion: apiVersionOf(resource),
    kind,
    metadata: {
      uid: before?.metadata.uid ?? crypto.randomUUID(),
      creationTimestamp: before?.metadata["creationTimestamp"] ?? now,
      ...metadata,
      ...generation,
      resourceVersion: String(version),
      ...(isNamespaced ? { namespace } : {}),
    },
    ...(name === "pods" ? completePod(given) : {}),
  });
}

/** Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/strategy.go */
function nextGeneration(
  { hasStatus }: Resource,
  given: NewObject,
  before: KubeObject | undefined,
): number {
  const contentOf = (object: NewObject): string =>
    JSON.stringify({
      ...object,
      ...hasStatus && { status: undefined },
      ...{ metadata: undefined, kind: undefined, apiVersion: undefined },
    });
  if (before === undefined) return 1;
  const generation = Number(before.metadata["generation"] ?? 1);
  return contentOf(before) === contentOf(given) ? generation : generation + 1;
}

/** Fills in what pods have once the scheduler has seen them. */
function completePod(given: NewObject): Record<string, unknown> {
  return {
    spec: {
      nodeName: "node1",
      containers: [{ name: "c1", image: "c1" }],
      ...given["spec"],
    },
    status: { phase: "Pending", ...given["status"] },
  };
}
