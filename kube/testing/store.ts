/**
 * The objects of the API server of the tests, and the changes
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
  /** The current object, or its last version if it was removed. */
  readonly object: KubeObject;
  /** As it was before; undefined if it is new. */
  readonly before: KubeObject | undefined;
  readonly isRemoval: boolean;
}

/** The changes of a resource that a watch can still report. */
export interface WatchWindow {
  /** A watch from an earlier version is refused. */
  readonly oldest: number;
  readonly changes: readonly Change[];
}

/**
 * Objects by resource, namespace and name. Arguments and results are copied.
 *
 * There are two histories, as in a real server. The watch cache contains the last
 * changes of each resource since the server started; etcd contains every version since
 * the last compaction.
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

  /** The oldest version at which a paged list can continue. */
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
   * Puts an object, and replaces an existing object of its name. The fields that the
   * server sets are added. If the UIDs differ, the existing object is removed first.
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

  /** Removes an object and returns it, if it exists. */
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

  /** Forgets all earlier versions: watches and lists that continue from them get 410. */
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
   * Puts a pod, by default into namespace `default`, and pending on node `node1`. An
   * existing pod of its name keeps its identity, unless the UIDs differ.
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

  /** Returns a pod's annotation `network-status`; undefined if it has none. */
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

  /** Creates the object without a version, so that the versions of other objects stay in order. */
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

/** Adds the fields that the server sets. A replaced object keeps its identity. */
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

/** Adds the fields that pods have after scheduling. */
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
