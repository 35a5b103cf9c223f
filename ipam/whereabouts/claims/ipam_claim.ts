/**
 * IPAMClaims: addresses that outlive the pods that use them. The claim is the
 * reservation, and a pool's record belongs to it instead of to a pod.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 8; ipamclaims pkg/crd/ipamclaims/v1alpha1/types.go.
 *
 * @module
 */

import type { ObjectMeta } from "../../../kube/types.ts";
import { Cidr } from "../../../net/cidr.ts";
import { unlessNoAddress } from "../../../net/ip.ts";
import type { Allocation } from "../objects.ts";
import { formatTime } from "../../../base/time.ts";

/** A claim to the addresses of one interface. */
export interface IpamClaim {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    /** `name` of the CNI configuration. */
    readonly network: string;
    /** Name of the interface; "" for any. */
    readonly interface: string;
  };
  readonly status?: ClaimStatus;
}

/** The plugin's report about a claim. */
export interface ClaimStatus {
  /** Addresses with prefix lengths. */
  readonly ips?: readonly string[];
  /** The pod that has the addresses; absent in older versions of the CRD. */
  readonly ownerPod?: { readonly name: string };
  readonly conditions?: readonly ClaimCondition[];
}

/** Source: k8s.io/apimachinery pkg/apis/meta/v1/types.go `Condition`. */
export interface ClaimCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}

/** Identifies a claim; a later claim of the same name has a different UID. */
export interface ClaimKey {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** A claim, and its addresses. */
export interface NotedClaim extends ClaimKey {
  /** Addresses with prefix lengths. */
  readonly ips: readonly string[];
  /** `network_name`; "" without one. */
  readonly networkName: string;
  /** Namespace of the pools. */
  readonly pools: string;
  /** Path of the kubeconfig. */
  readonly kubeconfig: string;
}

const PREFIX = "ipamclaim/";

/**
 * Returns the record of a claim's address. No pod has an empty reference, so upstream
 * whereabouts treats the address as allocated, and never releases it.
 *
 * Source: whereabouts pkg/reconciler/iploop.go `findOrphanedIPsPerPool`,
 * pkg/allocate/allocate.go `AssignIP`.
 */
export function recordOf(
  { namespace, name, uid }: ClaimKey,
  ifname: string,
): Required<Allocation> {
  return { id: `${PREFIX}${namespace}/${name}/${uid}`, podref: "", ifname };
}

/** Returns the claim that a record belongs to; undefined if it is a pod's. */
export function findClaimKey(
  { id, podref }: Pick<Allocation, "id" | "podref">,
): ClaimKey | undefined {
  if (podref !== "" || !id.startsWith(PREFIX)) return undefined;
  const [namespace = "", name = "", uid = ""] = id.slice(PREFIX.length)
    .split("/");
  return { namespace, name, uid };
}

/** Number of annotations of a pool that count records of claims. */
const COUNTS = 16;

/** Returns a pool's annotation that counts the records of a claim; several claims share it. */
export function recordCountKey(id: string): string {
  const sum = Array.from(id, (char) => char.charCodeAt(0))
    .reduce((all, code) => all + code, 0);
  return `cni.dev/claim-records-${sum % COUNTS}`;
}

/** Lists the valid addresses in the status of a claim. */
export function listIps({ status }: IpamClaim): Cidr[] {
  return (status?.ips ?? []).flatMap((text) =>
    unlessNoAddress(() => [Cidr.parse(text)]) ?? []
  );
}

/** Whether a claim's addresses are allocated, and why not. */
export const IPS_ALLOCATED = "IPsAllocated";

/** When the last pod of a claim with a `stayTime` ended. */
export const UNUSED = "cni.dev/Unused";

/**
 * Which sandbox of the pod has the addresses; the message is the container's ID. It is
 * the first condition, so that DEL can test it without reading the claim: a late DEL of
 * an older sandbox must not report that the pod has ended.
 */
export const SANDBOX = "cni.dev/Sandbox";
/** Path of that message in a claim. */
export const SANDBOX_PATH = "/status/conditions/0";

/** Returns the sandbox that has the addresses; undefined if unknown. */
export function sandboxOf({ conditions }: ClaimStatus): string | undefined {
  const [first] = conditions ?? [];
  return first?.type === SANDBOX ? first.message : undefined;
}

/** Returns the condition of a claim that no pod uses any longer. */
export function unusedNow(): ClaimCondition {
  return {
    type: UNUSED,
    status: "True",
    reason: "PodEnded",
    message: "no pod uses the addresses",
    lastTransitionTime: formatTime(new Date()),
  };
}

/** Annotations of the claims that the plugin creates for the key `stay`. */
export const PERSISTENCE = {
  /** Name of the pod. */
  pod: "cni.dev/stay-pod",
  /** How long the claim is kept unused, in milliseconds. */
  time: "cni.dev/stay-time-ms",
  /** `delete` if scaling down deletes the claim. */
  scaled: "cni.dev/stay-when-scaled",
  /** Name of the StatefulSet; "" if it is not of the API group `apps`. */
  set: "cni.dev/stay-statefulset",
} as const;

/** Reports whether an object is of the API group `apps`, as Kubernetes' StatefulSets. */
export function isOfApps(
  { apiVersion }: { readonly apiVersion: string },
): boolean {
  return apiVersion.startsWith("apps/");
}

/**
 * Annotation of a reservation: UID of the claim that it belongs to. Its pod
 * reference is empty.
 */
export const CLAIM_UID = "cni.dev/ipam-claim-uid";

/**
 * Finalizer that keeps a claim's reservation when the reconciler of upstream
 * whereabouts deletes it, because it names no pod. Until the finalizer is removed, no
 * reservation of the same name can be created.
 */
export const KEEP = "cni.dev/ipam-claim";
