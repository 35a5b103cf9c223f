/**
 * The input for resolving networks, in tests.
 *
 * @module
 */

import { decode } from "../../../base/json/json.ts";
import type { RequestOptions } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import type { NetworkAttachmentDefinition } from "../../../kube/types.ts";
import { multusSchema } from "../model/config.ts";
import type { NetworksQuery } from "../select/select.ts";

/**
 * Builds a query for a pod in namespace `test`.
 *
 * @param config The configuration of multus, before parsing
 */
export function networksQuery(
  config: object,
  more: Partial<NetworksQuery> = {},
): NetworksQuery {
  return {
    config: decode(multusSchema(), config, "network configuration"),
    cniVersion: "1.0.0",
    podNamespace: "test",
    log: { warn: () => {} },
    ...more,
  };
}

/** The configuration of a definition: text, or an object to encode as JSON. */
export type DefinitionConfig = string | object;

/** Responds like an API server that contains only definitions. */
export class DefinitionStore {
  readonly #definitions = new Map<string, NetworkAttachmentDefinition>();
  readonly #failures = new Map<string, KubeError>();
  /** The requested definitions, as `namespace/name`, in order. */
  readonly requests: string[] = [];
  /** The largest number of concurrent requests. */
  peak = 0;
  /** How many requests were aborted. */
  aborted = 0;
  #running = 0;
  #gate: Promise<void> = Promise.resolve();

  /** Creates a store with definitions by `namespace/name`. */
  constructor(definitions: Readonly<Record<string, DefinitionConfig>> = {}) {
    for (const [key, config] of Object.entries(definitions)) {
      this.put(key, config);
    }
  }

  /** Adds a definition, or replaces it. */
  put(key: string, config: DefinitionConfig, resourceName?: string): void {
    const [namespace = "", name = ""] = key.split("/");
    const annotations = resourceName === undefined
      ? {}
      : { "k8s.v1.cni.cncf.io/resourceName": resourceName };
    this.#definitions.set(key, {
      metadata: { namespace, name, annotations },
      spec: {
        config: typeof config === "string" ? config : JSON.stringify(config),
      },
    });
  }

  /** Makes the server fail instead of returning a definition. */
  fail(key: string, error: KubeError): void {
    this.#failures.set(key, error);
  }

  /** Makes all requests wait. @returns A function that ends the wait */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gate = promise;
    return resolve;
  }

  /** Responds like a client. */
  async getNetworkAttachmentDefinition(
    namespace: string,
    name: string,
    { signal }: RequestOptions = {},
  ): Promise<NetworkAttachmentDefinition> {
    const key = `${namespace}/${name}`;
    this.requests.push(key);
    signal?.addEventListener("abort", () => this.aborted++);
    this.peak = Math.max(this.peak, ++this.#running);
    await this.#gate;
    this.#running--;
    return this.#answer(key, name);
  }

  #answer(key: string, name: string): NetworkAttachmentDefinition {
    const failure = this.#failures.get(key);
    if (failure !== undefined) throw failure;
    const definition = this.#definitions.get(key);
    if (definition !== undefined) return definition;
    throw new KubeError(
      `network-attachment-definitions.k8s.cni.cncf.io "${name}" not found`,
      { status: 404, reason: "NotFound" },
    );
  }
}
