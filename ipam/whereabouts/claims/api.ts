/**
 * Requests for IPAMClaims, and for the pods that use them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { objectOf, parseJson } from "../../../base/json/json.ts";
import type { RequestOptions } from "../../../kube/client.ts";
import {
  deleteObject,
  patchJson,
  type PatchOperation,
} from "../../../kube/write.ts";
import {
  isConflict,
  isNotFound,
  type KubeError,
} from "../../../kube/kube_error.ts";
import { apiPath } from "../../../kube/request.ts";
import type { Pod } from "../../../kube/types.ts";
import type { ApiClient } from "../api.ts";
import type { IpamClaim } from "./ipam_claim.ts";

const ROOT = "/apis/k8s.cni.cncf.io/v1alpha1";
const CLAIMS = "ipamclaims";
/** Path of the claims of all namespaces. */
export const ALL_CLAIMS = `${ROOT}/${CLAIMS}`;

/** Reports whether a pod no longer runs. */
export function hasEnded({ status }: Pick<Pod, "status">): boolean {
  return ["Succeeded", "Failed"].includes(status?.phase ?? "");
}

const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/**
 * Lists the known addresses of a pod: the addresses in its network status, which multus
 * writes, and of its default network, which the kubelet reports.
 */
export function podAddressesOf(
  pod: Pick<Pod, "metadata" | "status">,
): string[] {
  const { podIPs = [] } = pod.status ?? {};
  return [...attachedAddressesOf(pod), ...podIPs.flatMap(({ ip }) => ip ?? [])];
}

/** Lists the addresses in a pod's network status; none if it cannot be read. */
export function attachedAddressesOf(
  { metadata }: Pick<Pod, "metadata">,
): string[] {
  const text = metadata?.annotations?.[NETWORK_STATUS] ?? "[]";
  const networks = ifPossible(() => parseJson(text));
  if (!Array.isArray(networks)) return [];
  const addresses = networks.flatMap((one) => objectOf(one)["ips"] ?? []);
  return addresses.filter((ip) => typeof ip === "string");
}

/** The claims and pods of a cluster. All methods throw `KubeError`. */
export class ClaimApi {
  readonly #client: ApiClient;
  readonly #limits: RequestOptions;

  /** Creates an API with the limits of its requests. */
  constructor(client: ApiClient, limits: RequestOptions) {
    this.#client = client;
    this.#limits = limits;
  }

  /**
   * Reads a claim; returns undefined if it does not exist.
   *
   * @throws {CniError} 7 if the cluster has no claims
   */
  async find(namespace: string, name: string): Promise<IpamClaim | undefined> {
    const path = pathOf(namespace, name);
    try {
      return await this.#client.request<IpamClaim>({ path }, this.#limits);
    } catch (error) {
      if (isNotFound(error)) return whatIsMissing(error as KubeError);
      throw error;
    }
  }

  /**
   * Creates a claim.
   *
   * @returns Undefined if it exists
   */
  async create(
    metadata: NonNullable<IpamClaim["metadata"]>,
    spec: IpamClaim["spec"],
  ): Promise<IpamClaim | undefined> {
    const { namespace = "" } = metadata;
    try {
      return await this.#client.request<IpamClaim>({
        method: "POST",
        path: pathOf(namespace),
        body: {
          apiVersion: "k8s.cni.cncf.io/v1alpha1",
          kind: "IPAMClaim",
          metadata,
          spec,
        },
      }, this.#limits);
    } catch (error) {
      if (isConflict(error)) return undefined;
      if (isNotFound(error)) return whatIsMissing(error as KubeError);
      throw error;
    }
  }

  /**
   * Patches the status of a claim.
   *
   * @returns The patched claim; undefined if a test failed, another writer came
   *   first, or the claim does not exist
   */
  async patchStatus(
    namespace: string,
    name: string,
    operations: readonly PatchOperation[],
  ): Promise<IpamClaim | undefined> {
    const path = `${pathOf(namespace, name)}/status`;
    return await patchJson(this.#client, path, operations, this.#limits);
  }

  /**
   * Deletes a claim.
   *
   * @returns False if it has changed since it was read
   */
  async deleteAsRead({ metadata }: IpamClaim): Promise<boolean> {
    const { namespace = "", name = "", uid, resourceVersion } = metadata ?? {};
    const read = { uid, resourceVersion };
    const path = pathOf(namespace, name);
    return await deleteObject(this.#client, path, read, this.#limits);
  }

  /** Reads a pod; returns undefined if it does not exist. */
  async findPod(namespace: string, name: string): Promise<Pod | undefined> {
    const path = apiPath("/api/v1", "namespaces", namespace, "pods", name);
    try {
      return await this.#client.request<Pod>({ path }, this.#limits);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Lists the pods of a namespace with a label. */
  async listPods(namespace: string, labelSelector: string): Promise<Pod[]> {
    const path = apiPath("/api/v1", "namespaces", namespace, "pods");
    const pods: Pod[] = [];
    const options = { ...this.#limits, labelSelector };
    for await (
      const { items = [] } of this.#client.listPages<Pod>(path, options)
    ) pods.push(...items);
    return pods;
  }
}

function pathOf(namespace: string, ...names: readonly string[]): string {
  return apiPath(ROOT, "namespaces", namespace, CLAIMS, ...names);
}

/** Throws if the CRD is missing: then the answer has no reason. */
function whatIsMissing({ reason }: KubeError): undefined {
  if (reason === "NotFound") return undefined;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "the cluster has no IPAMClaims: their CRD is not installed",
  );
}
