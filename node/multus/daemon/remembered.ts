/**
 * What the daemon remembers of objects: what the plugin needs to know of them,
 * as the text of an answer.
 *
 * @module
 */

import type {
  NetworkAttachmentDefinition,
  ObjectMeta,
  Pod,
} from "../../../kube/types.ts";
import type { ClaimStatus } from "../../../plugins/multus/devices/resource_claims.ts";

/** An object. */
export interface Remembered {
  /** JSON. */
  readonly text: string;
  /** By which the runtime may know it. */
  readonly uids: readonly string[];
}

/** By which the kubelet knows a pod that it has from a file. Source: kubernetes pkg/kubelet/types/pod_update.go. */
const CONFIG_HASH = "kubernetes.io/config.hash";

/** What `kubectl apply` keeps for itself: the whole object once more. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/**
 * Picks what the plugin needs of a pod: annotations, node and claims to devices,
 * which are settled before the pod gets a node. Nothing of what it runs.
 */
export function rememberPod(
  { metadata, spec, status = {} }: Pod,
): Remembered | undefined {
  if (metadata?.uid === undefined) return undefined;
  const { resourceClaimStatuses, extendedResourceClaimStatus }: ClaimStatus =
    status;
  const hash = metadata.annotations?.[CONFIG_HASH];
  return {
    text: JSON.stringify({
      apiVersion: "v1",
      kind: "Pod",
      metadata: shorten(metadata),
      spec: { nodeName: spec?.nodeName },
      status: { resourceClaimStatuses, extendedResourceClaimStatus },
    }),
    uids: [metadata.uid, ...hash === undefined ? [] : [hash]],
  };
}

/** Makes what is remembered of a network attachment definition. */
export function rememberDefinition(
  { metadata, spec }: NetworkAttachmentDefinition,
): Remembered | undefined {
  if (metadata?.uid === undefined) return undefined;
  return {
    text: JSON.stringify({
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: shorten(metadata),
      spec,
    }),
    uids: [metadata.uid],
  };
}

function shorten(metadata: ObjectMeta): object {
  const { namespace, name, uid, resourceVersion, annotations = {} } = metadata;
  const { [LAST_APPLIED]: _, ...others } = annotations;
  return { namespace, name, uid, resourceVersion, annotations: others };
}
