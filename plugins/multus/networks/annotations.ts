/**
 * The annotations of a pod that choose its networks.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 4.1; of the second, multus-cni docs/configuration.md.
 *
 * @module
 */

/** Networks to attach a pod to, beside the master. */
export const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** The network that replaces the master. */
export const DEFAULT_NETWORK = "v1.multus-cni.io/default-network";
