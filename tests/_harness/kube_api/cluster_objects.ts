/**
 * Direct access of tests to the objects of an API server, without its API.
 *
 * @module
 */

import type { KubeObject, NewObject, ResourceName } from "./objects.ts";
import { ObjectStore } from "./store.ts";

const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/** The objects of a cluster. Copies go in and come out. */
export class ClusterObjects {
  /** For those who serve them. */
  protected readonly store = new ObjectStore();

  /**
   * Puts a pod, into namespace `default` if it does not say. It is pending on
   * node `node1` unless it says otherwise. One of its name is written over
   * and stays the same pod, unless the new one has another UID.
   *
   * @returns The current pod
   */
  putPod(pod: NewObject): KubeObject {
    return this.store.put("pods", pod);
  }

  /** Returns a pod, or undefined. */
  pod(namespace: string, name: string): KubeObject | undefined {
    return this.store.find("pods", namespace, name);
  }

  /** Removes a pod if it exists. */
  removePod(namespace: string, name: string): void {
    this.store.remove("pods", namespace, name);
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
    return this.store.put("network-attachment-definitions", {
      metadata: { namespace, name, annotations },
      spec: text === undefined ? {} : { config: text },
    });
  }

  /** Removes a network attachment definition if it exists. */
  removeNad(namespace: string, name: string): void {
    this.store.remove("network-attachment-definitions", namespace, name);
  }

  /** Puts a resource claim, into namespace `default` if it does not say. */
  putClaim(claim: NewObject): KubeObject {
    return this.store.put("resourceclaims", claim);
  }

  /** Puts a resource slice. */
  putSlice(slice: NewObject): KubeObject {
    return this.store.put("resourceslices", slice);
  }

  /** Puts an object of any resource, as `putPod()` does. */
  put(resource: ResourceName, object: NewObject): KubeObject {
    return this.store.put(resource, object);
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
    return this.store.find(resource, namespace, name);
  }

  /** Lists the names of a resource's objects in order. */
  listNames(resource: ResourceName): string[] {
    return this.store.list(resource).map(({ metadata }) => metadata.name);
  }

  /** Removes an object if it exists. */
  remove(resource: ResourceName, namespace: string, name: string): void {
    this.store.remove(resource, namespace, name);
  }

  /** Lists the events, in order of arrival. */
  get events(): KubeObject[] {
    const version = ({ metadata }: KubeObject): number =>
      Number(metadata.resourceVersion);
    return this.store.list("events").sort((a, b) => version(a) - version(b));
  }

  /** Lists the texts of the events, as `Normal AddedInterface Add eth0 ...`. */
  get eventTexts(): string[] {
    return this.events.map((event) =>
      `${event["type"]} ${event["reason"]} ${event["message"]}`
    );
  }

  /** The version of the newest change. */
  get version(): number {
    return this.store.version;
  }

  /**
   * Sets how many changes of a resource watches can go on from; 100 unless set.
   * A watch from before them gets 410.
   */
  set watchCapacity(changes: number) {
    this.store.watchCapacity = changes;
  }

  /** Forgets all earlier versions: watches and lists that go on from one get 410. */
  compact(): void {
    this.store.compact();
  }
}
