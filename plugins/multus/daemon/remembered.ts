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
 * Makes what is remembered of a pod: its annotations, but nothing of what it
 * runs. One that has claims to devices is not remembered, for the plugin has to
 * know what became of them.
 */
export function rememberPod({ metadata, spec }: Pod): Remembered | undefined {
  const { resourceClaims = [], nodeName } = asClaimant(spec);
  if (metadata?.uid === undefined || resourceClaims.length > 0) {
    return undefined;
  }
  const hash = metadata.annotations?.[CONFIG_HASH];
  return {
    text: JSON.stringify({
      apiVersion: "v1",
      kind: "Pod",
      metadata: shorten(metadata),
      spec: { nodeName },
    }),
    uids: [metadata.uid, ...hash === undefined ? [] : [hash]],
  };
}

/** The types of the API are older than its claims. */
function asClaimant(
  spec: Pod["spec"],
): {
  readonly resourceClaims?: readonly unknown[];
  readonly nodeName?: string;
} {
  return spec ?? {};
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
