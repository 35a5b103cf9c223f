/**
 * The parts of a pod that decide whether the pod may use the addresses of an
 * IPAMClaim: its identity, its controller, and the labels of a virtual machine. The
 * plugin that reads the pod passes them to the plugins of the pod's networks.
 *
 * @module
 */

import type { Pod } from "./types.ts";

/**
 * The key of a plugin's configuration that contains {@linkcode PodEvidence}. A pod
 * cannot set it: `cni-args` of its annotation become `args.cni`.
 */
export const POD_EVIDENCE = "cni.dev/pod";

/** Key of a network that lets pods name claims, next to its plugins. */
export const ALLOWS_CLAIMS = "allowPersistentIPs";

/**
 * Key of a network selection element, and of `args.cni`: the claim's name, or ""
 * without a claim.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 4.1.2.1.11.
 */
export const CLAIM_REFERENCE = "ipam-claim-reference";

/** UID of the VirtualMachineInstance, on its pods. Source: kubevirt pkg/virt-controller. */
export const CREATED_BY = "kubevirt.io/created-by";

/** A label of pods that were created as the target of a live migration. */
export const MIGRATION_JOB = "kubevirt.io/migrationJobUID";

/** The parts of a pod. */
export interface PodEvidence {
  readonly uid: string;
  /** The owner that controls the pod. */
  readonly controller?: {
    readonly apiVersion: string;
    readonly kind: string;
    readonly name: string;
    readonly uid: string;
  } | undefined;
  /** Only {@linkcode CREATED_BY} and {@linkcode MIGRATION_JOB}. */
  readonly labels: Readonly<Record<string, string>>;
}

/** Picks the parts of a pod. */
export function evidenceOf({ metadata }: Pick<Pod, "metadata">): PodEvidence {
  const { uid = "", ownerReferences = [], labels = {} } = metadata ?? {};
  const owner = ownerReferences.find(({ controller }) => controller);
  return {
    uid,
    ...owner && {
      controller: {
        apiVersion: owner.apiVersion,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
      },
    },
    labels: Object.fromEntries(
      [CREATED_BY, MIGRATION_JOB].flatMap((key) => {
        const value = labels[key];
        return value === undefined ? [] : [[key, value]];
      }),
    ),
  };
}
