/**
 * NetworkAttachmentDefinitions: networks that are Kubernetes objects.
 *
 * @module
 */

import { JoinedSignal } from "../../../base/deadline.ts";
import { describeError, toCniError } from "../../../base/error.ts";
import type { Log } from "../../../base/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { KubeError, kubeErrorCode } from "../../../kube/kube_error.ts";
import type { PodEvidence } from "../../../kube/pod_evidence.ts";
import type { NetworkAttachmentDefinition } from "../../../kube/types.ts";
import type { MultusConfig } from "../model/config.ts";
import {
  type Delegate,
  type DelegateOptions,
  loadDelegate,
  type NetworkSelection,
  toDelegate,
} from "../model/delegate.ts";
import {
  allowsClaims,
  injectClaim,
  injectCniArgs,
  injectDeviceId,
  injectEvidence,
  injectName,
  removeReserved,
  staysByPod,
} from "../model/edit_delegate.ts";
import { inContext, NetworkError, refusal } from "../model/network_error.ts";
import {
  checkArguments,
  checkDefinition,
  checkSize,
  type DefinitionPolicy,
} from "./definition_policy.ts";
import type { PodRequestPolicy } from "./pod_requests.ts";
import { findNetworkFile } from "./network_files.ts";

/** The part of the Kubernetes API that resolves networks. */
export type DefinitionSource = Pick<
  KubeClient,
  "getNetworkAttachmentDefinition"
>;

/** The settings of the node about definitions. */
export type DefinitionsConfig =
  & DefinitionPolicy
  & PodRequestPolicy
  & Pick<MultusConfig, "confDir" | "trustedNamespaces" | "requireDevices">;

/** Identifies a NetworkAttachmentDefinition. */
export interface DefinitionKey {
  readonly namespace: string;
  readonly name: string;
}

/** Hands out the pod's devices. */
export interface DeviceSource {
  /**
   * Hands out the next device of a resource; undefined if none is left. If
   * absent, networks get no devices.
   */
  readonly takeDevice?:
    | ((resourceName: string) => Promise<string | undefined>)
    | undefined;
  /** Reports whether the pod was given a device, of any resource. */
  readonly hasDevice?: ((deviceId: string) => Promise<boolean>) | undefined;
  /** Reads what decides whether the pod may have an IPAMClaim's addresses. */
  readonly findEvidence?: (() => Promise<PodEvidence>) | undefined;
}

/** Limits concurrent requests: an annotation can name many networks. */
const MAX_REQUESTS = 8;

/** Limits the definitions of all networks of a pod together. */
const MAX_TOTAL_BYTES = 1024 * 1024;

/**
 * The definitions of one operation. Each is fetched once, several concurrently.
 * Disposal aborts requests in flight.
 */
export class AttachmentDefinitions implements Disposable {
  readonly #source: DefinitionSource;
  readonly #fetched = new Map<string, Promise<NetworkAttachmentDefinition>>();
  readonly #abort = new AbortController();
  readonly #signal: AbortSignal;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #totalBytes = 0;

  /** @param signal Aborts all requests */
  constructor(source: DefinitionSource, signal?: AbortSignal) {
    this.#source = source;
    const { signal: own } = this.#abort;
    this.#signal = signal ? new JoinedSignal(signal, own).signal : own;
  }

  /** Starts to fetch definitions, in this order. */
  prefetch(keys: readonly DefinitionKey[]): void {
    // get() reports the failure.
    for (const key of keys) this.get(key).catch(() => {});
  }

  /**
   * Returns a definition.
   *
   * @throws {NetworkError} 7 If it does not exist, 11 if the API cannot be
   *   asked
   */
  get(key: DefinitionKey): Promise<NetworkAttachmentDefinition> {
    const id = `${key.namespace}/${key.name}`;
    let definition = this.#fetched.get(id);
    if (definition === undefined) {
      definition = this.#fetch(key);
      this.#fetched.set(id, definition);
    }
    return definition;
  }

  /**
   * Resolves a network that is a definition.
   *
   * Source: multus-cni pkg/k8sclient/k8sclient.go `getKubernetesDelegate`.
   *
   * @throws {NetworkError} As {@linkcode get}
   * @throws {NetworkError} 7 if the node's policy refuses it
   * @throws {CniError} 5, 6 or 7 if it is malformed; what `takeDevice` throws
   */
  async resolve(
    selection: NetworkSelection,
    source: DeviceSource & {
      readonly config: DefinitionsConfig;
      readonly log: Pick<Log, "warn">;
    },
  ): Promise<Delegate> {
    const { config } = source;
    const definition = await this.get(selection);
    this.#addSize(definition, selection);
    const delegate = readDefinition(definition, selection, config.confDir);
    const isTrusted = config.trustedNamespaces.includes(selection.namespace);
    if (isFromApi(definition) && !isTrusted) {
      checkDefinition(delegate, originOf(selection), config);
    }
    const complete = await claimAddresses(
      await withRequest(delegate, config),
      source,
    );
    const resourceName = definition.metadata?.annotations?.[RESOURCE_NAME];
    return await withDevice(complete, resourceName, source);
  }

  /** @throws {NetworkError} 7 If the definitions are too large together */
  #addSize({ spec }: NetworkAttachmentDefinition, key: DefinitionKey): void {
    this.#totalBytes += (spec?.config ?? "").length;
    if (this.#totalBytes <= MAX_TOTAL_BYTES) return;
    throw refusal(
      `Refused ${originOf(key)}: with it, the pod's networks have ` +
        `${this.#totalBytes} bytes; the limit is ${MAX_TOTAL_BYTES}`,
    );
  }

  async #fetch(key: DefinitionKey): Promise<NetworkAttachmentDefinition> {
    const { namespace, name } = key;
    try {
      return await this.#inTurn(() =>
        this.#source.getNetworkAttachmentDefinition(namespace, name, {
          signal: this.#signal,
        })
      );
    } catch (error) {
      throw missing(key, error);
    }
  }

  async #inTurn<T>(request: () => Promise<T>): Promise<T> {
    if (this.#running >= MAX_REQUESTS) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#running++;
    try {
      this.#signal.throwIfAborted();
      return await request();
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  /** Aborts requests in flight. */
  [Symbol.dispose](): void {
    this.#abort.abort();
  }
}

/**
 * Writes what the pod requests into a network's configuration. What the pod may
 * have does not depend on who wrote the configuration.
 *
 * @throws {NetworkError} 7 If the pod is not allowed to use it
 */
export async function withRequest(
  delegate: Delegate,
  config: PodRequestPolicy,
): Promise<Delegate> {
  const { name, request: { ips, mac, cniArgs } } = delegate;
  if (cniArgs !== undefined) checkArguments(cniArgs, name);
  if (ips !== undefined || mac !== undefined || cniArgs !== undefined) {
    const { checkOffered } = await import("./pod_requests.ts");
    checkOffered(delegate, config);
  }
  return cniArgs === undefined ? delegate : injectCniArgs(delegate, cniArgs);
}

/**
 * Gives a network the next device of its resource or, without one, the device
 * that the pod names, if it belongs to the pod.
 */
async function withDevice(
  delegate: Delegate,
  resourceName: string | undefined,
  { config, takeDevice, hasDevice }: DeviceSource & {
    readonly config: DefinitionsConfig;
  },
): Promise<Delegate> {
  const { name, request: { deviceId: named } } = delegate;
  const deviceId = resourceName ? await takeDevice?.(resourceName) : undefined;
  if (resourceName && deviceId !== undefined) {
    return injectDeviceId(delegate, { resourceName, deviceId });
  }
  if (named !== undefined) {
    if (config.podRequests === "any" || await hasDevice?.(named)) {
      return delegate;
    }
    const { refuse } = await import("./pod_requests.ts");
    throw refuse(
      delegate,
      `device ${JSON.stringify(named)}`,
      "neither the kubelet nor a resource claim allocated it to the pod",
    );
  }
  if (!resourceName || !config.requireDevices || takeDevice === undefined) {
    return delegate;
  }
  throw noDevice(name, resourceName);
}

/** The network's resource has no device for the pod. */
function noDevice(name: string, resourceName: string): NetworkError {
  return refusal(
    `network "${name}" needs a device of resource "${resourceName}", and the ` +
      "pod has none left",
  );
}

/** Hands the IPAMClaim that the pod names to a network that allows it. */
export async function claimAddresses(
  delegate: Delegate,
  { findEvidence, log }: Pick<DeviceSource, "findEvidence"> & {
    readonly log: Pick<Log, "warn">;
  },
): Promise<Delegate> {
  const { name, request: { claim } } = delegate;
  if (allowsClaims(delegate)) {
    return injectClaim(delegate, claim ? await findEvidence?.() : undefined);
  }
  if (findEvidence && staysByPod(delegate)) {
    return injectEvidence(delegate, await findEvidence());
  }
  if (claim !== undefined) {
    log.warn("Ignoring an IPAMClaim: the network does not allow it", {
      network: name,
      claim,
      key: "allowPersistentIPs",
    });
  }
  return delegate;
}

/** Source: the text, multus-cni pkg/k8sclient/k8sclient.go `getKubernetesDelegate`. */
function missing(
  { namespace, name }: DefinitionKey,
  cause: unknown,
): NetworkError {
  const code = cause instanceof KubeError
    ? kubeErrorCode(cause)
    : toCniError(cause).code;
  const event =
    `cannot find a network-attachment-definition (${name}) in namespace (${namespace}): ${
      describeError(cause)
    }`;
  return new NetworkError(code, `getKubernetesDelegate: ${event}`, {
    reason: "NoNetworkFound",
    message: event,
  });
}

/** Reports whether a definition has a configuration of its own. */
function isFromApi({ spec }: NetworkAttachmentDefinition): boolean {
  return (spec?.config ?? "") !== "";
}

/** Annotation of a definition: the resource that provides its device. */
const RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName";

/**
 * Reads the configuration of a definition, or, if it has none, the file with
 * the definition's name.
 *
 * @throws {CniError} 5, 6 or 7 if it is malformed or missing
 */
function readDefinition(
  definition: NetworkAttachmentDefinition,
  { namespace, name, request }: NetworkSelection,
  confDir: string,
): Delegate {
  const options = { name: `${namespace}/${name}`, request };
  const config = definition.spec?.config ?? "";
  const isWritten = isFromApi(definition);
  try {
    return isWritten
      ? readWritten(
        new TextEncoder().encode(config),
        { namespace, name },
        options,
      )
      : toDelegate(findNetworkFile(confDir, name), options);
  } catch (error) {
    const context = isWritten
      ? `Cannot read network-attachment-definition "${options.name}"`
      : "GetCNIConfig: err in GetCNIConfigFromFile";
    throw inContext(context, error);
  }
}

function readWritten(
  config: Uint8Array,
  { namespace, name }: DefinitionKey,
  options: DelegateOptions,
): Delegate {
  checkSize(config, originOf({ namespace, name }));
  return removeReserved(loadDelegate(injectName(config, name), options));
}

function originOf({ namespace, name }: DefinitionKey): string {
  return `NetworkAttachmentDefinition "${namespace}/${name}"`;
}
