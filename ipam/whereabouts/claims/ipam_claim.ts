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

/** One claim; another one of the same name has another UID. */
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
 * Returns the record of a claim's address. No pod has an empty reference, so
 * the reference implementation takes the address for taken, releases it for no
 * pod, and leaves the record alone.
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

/** How many counts of claims' records a pool has. */
const COUNTS = 16;

/** Returns a pool's annotation that counts the records made for a claim, and for some others. */
export function recordCountKey(id: string): string {
  const sum = Array.from(id, (char) => char.charCodeAt(0))
    .reduce((all, code) => all + code, 0);
  return `cni.dev/claim-records-${sum % COUNTS}`;
}

/** Lists the addresses of a claim. Anything else is left out. */
export function listIps({ status }: IpamClaim): Cidr[] {
  return (status?.ips ?? []).flatMap((text) =>
    unlessNoAddress(() => [Cidr.parse(text)]) ?? []
  );
}

/** Whether a claim's addresses are allocated, and why not. */
export const IPS_ALLOCATED = "IPsAllocated";

/** When the last pod has ended that used a claim; only where a time counts. */
export const UNUSED = "cni.dev/Unused";

/**
 * Which sandbox of the pod has the addresses; its message is the container's ID.
 * It is the first condition, so that DEL, which reads nothing, can test it: a late
 * DEL of an older sandbox must not say that the pod has ended.
 */
export const SANDBOX = "cni.dev/Sandbox";
/** Path of that message in a claim. */
export const SANDBOX_PATH = "/status/conditions/0";

/** Returns the sandbox that has the addresses; undefined if unknown. */
export function sandboxOf({ conditions }: ClaimStatus): string | undefined {
  const [first] = conditions ?? [];
  return first?.type === SANDBOX ? first.message : undefined;
}

/** Returns the condition of a claim that no pod uses from now on. */
export function unusedNow(): ClaimCondition {
  return {
    type: UNUSED,
    status: "True",
    reason: "PodEnded",
    message: "no pod uses the addresses",
    lastTransitionTime: formatTime(new Date()),
  };
}

/** Annotations of a claim that the plugin has created, because of the key `stay`. */
export const PERSISTENCE = {
  /** Name of the pod that it is for. */
  pod: "cni.dev/stay-pod",
  /** How long it stays unused, in milliseconds. */
  time: "cni.dev/stay-time-ms",
  /** `delete` if scaling down deletes it. */
  scaled: "cni.dev/stay-when-scaled",
  /** Name of the StatefulSet; "" if it is not of the API group `apps`. */
  set: "cni.dev/stay-statefulset",
} as const;

/** Reports whether an object's API is that of Kubernetes' own StatefulSets. */
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
 * Keeps a claim's reservation when the reference's reconciler, to which it is
 * without a pod, deletes it: until the finalizer is removed, the object is
 * found, and no other can be created.
 */
export const KEEP = "cni.dev/ipam-claim";
