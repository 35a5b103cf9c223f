/**
 * The cached part of objects: the fields that the plugin needs, as the text of a
 * response.
 *
 * @module
 */

import { evidenceOf } from "../../../kube/pod_evidence.ts";
import type {
  ClaimStatus,
  NetworkAttachmentDefinition,
  ObjectMeta,
  Pod,
} from "../../../kube/types.ts";
import type { CachedObject } from "../../../kube/resident/informer.ts";

/**
 * The annotation that contains the kubelet's UID of a static pod.
 *
 * Source: kubernetes pkg/kubelet/types/pod_update.go.
 */
const CONFIG_HASH = "kubernetes.io/config.hash";

/** The copy of the whole object that `kubectl apply` keeps. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/**
 * Selects the parts of a pod that the plugin needs: annotations, node, controller,
 * identity of a virtual machine, whether its networks must already be attached, and
 * device claims, which are final before the pod is bound to a node. Containers are
 * omitted.
 */
export function cachedPod(
  { metadata, spec, status = {} }: Pod,
): CachedObject | undefined {
  if (metadata?.uid === undefined) return undefined;
  const { resourceClaimStatuses, extendedResourceClaimStatus }: ClaimStatus =
    status;
  const { phase, podIP, podIPs } = status;
  const hash = metadata.annotations?.[CONFIG_HASH];
  const { labels } = evidenceOf({ metadata });
  const ownerReferences = metadata.ownerReferences
    ?.filter(({ controller }) => controller);
  return {
    text: JSON.stringify({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        ...shorten(metadata),
        ...ownerReferences?.length && { ownerReferences },
        ...Object.keys(labels).length > 0 && { labels },
      },
      spec: { nodeName: spec?.nodeName, hostNetwork: spec?.hostNetwork },
      status: {
        resourceClaimStatuses,
        extendedResourceClaimStatus,
        phase,
        podIP,
        podIPs,
      },
    }),
    uids: [metadata.uid, ...hash === undefined ? [] : [hash]],
  };
}

/**
 * Selects the cached part of a network attachment definition. Additional fields are
 * not encoded, because a deeply nested field would overflow the stack.
 */
export function cachedDefinition(
  { metadata, spec }: NetworkAttachmentDefinition,
): CachedObject | undefined {
  if (metadata?.uid === undefined) return undefined;
  return {
    text: JSON.stringify({
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: shorten(metadata),
      spec: { config: spec?.config },
    }),
    uids: [metadata.uid],
  };
}

function shorten(metadata: ObjectMeta): object {
  const { namespace, name, uid, resourceVersion, annotations = {} } = metadata;
  const { deletionTimestamp } = metadata;
  const { [LAST_APPLIED]: _, ...others } = annotations;
  return {
    namespace,
    name,
    uid,
    resourceVersion,
    deletionTimestamp,
    annotations: others,
  };
}
