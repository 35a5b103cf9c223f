/**
 * Pods, as whoever runs them describes them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../cni/error.ts";
import type { JsonObject } from "../cni/json.ts";
import type { CniArgs } from "../cni/libcni/mod.ts";

/** The interface of a pod that its status is about, in every pod the same. */
export const POD_IFNAME = "eth0";

/** A port of the host that leads to one of the pod. */
export interface PortMapping {
  /** From 1 to 65535; a mapping with any less is left out. */
  readonly hostPort: number;
  /** From 1 to 65535. */
  readonly containerPort: number;
  /** `tcp`, `udp` or `sctp`, in any case; `tcp` by default. */
  readonly protocol?: string;
  /** The host's address; all of them by default. */
  readonly hostIp?: string;
}

/** Addresses that one is chosen from, as text. */
export interface IpRange {
  /** As `10.1.2.0/24`. */
  readonly subnet: string;
  /** The first; that of the subnet by default. */
  readonly rangeStart?: string;
  /** The last; that of the subnet by default. */
  readonly rangeEnd?: string;
  /** The router; the first address of the subnet by default. */
  readonly gateway?: string;
}

/** How a pod resolves names, as the CRI has it. */
export interface PodDns {
  /** Addresses of name servers, in order of preference. */
  readonly servers?: readonly string[];
  /** Domains to try for short names, in order. */
  readonly searches?: readonly string[];
  /** As `ndots:5`. */
  readonly options?: readonly string[];
}

/** A pod's names. Operations on pods of the same names follow one another. */
export interface PodNames {
  /** The Kubernetes namespace. */
  readonly namespace: string;
  /** Its own within that. */
  readonly name: string;
}

/** A pod's names and its sandbox: what tells it from all others. */
export interface PodSandbox extends PodNames {
  /** ID of the sandbox: CNI_CONTAINERID. */
  readonly containerId: string;
  /** Path of the sandbox's network namespace; "" if it is gone. */
  readonly netns: string;
}

/** A pod, and what it wants of its network. */
export interface Pod extends PodSandbox {
  /** K8S_POD_UID of CNI_ARGS. */
  readonly uid?: string;
  /** Capability `io.kubernetes.cri.pod-annotations`; two of them are its bandwidth. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** `args.cni.labels` of every plugin's configuration. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Capability `portMappings`. */
  readonly portMappings?: readonly PortMapping[];
  /** Capability `dns`. */
  readonly dns?: PodDns;
  /** Capability `ipRanges`: an address of each; the node's PodCIDRs by default. */
  readonly ipRanges?: readonly (readonly IpRange[])[];
  /** Capability `cgroupPath`. */
  readonly cgroupPath?: string;
  /** Any other capability, as `ips` or `mac`; replaces those above. */
  readonly capabilityArgs?: JsonObject;
  /** Further pairs of CNI_ARGS. */
  readonly cniArgs?: CniArgs;
}

/** Names a pod as kubelet does. Source: kubelet `BuildPodFullName`. */
export function formatFullName({ namespace, name }: PodNames): string {
  return `${name}_${namespace}`;
}

/** The key of CNI_ARGS by which a pod's attachment can be told from others. */
export const SANDBOX_KEY = "K8S_POD_INFRA_CONTAINER_ID";

/**
 * Lists what CNI_ARGS shall say of a pod.
 *
 * Source: kubelet `buildCNIRuntimeConf`; the UID is containerd's.
 */
export function listPodArgs(pod: Pod): CniArgs {
  const { namespace, name, containerId, uid, cniArgs = [] } = pod;
  return [
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAMESPACE", namespace],
    ["K8S_POD_NAME", name],
    [SANDBOX_KEY, containerId],
    ...(uid ? [["K8S_POD_UID", uid]] as const : []),
    ...cniArgs,
  ];
}

/**
 * Checks that CNI_ARGS can tell of a pod.
 *
 * @throws {CniError} 4 If a name is missing, or a value would be read as several
 */
export function checkPodArgs(pod: Pod): void {
  for (const [key, value] of listPodArgs(pod)) {
    const pair = `${key}=${value}`;
    if (/^[^=;]+=[^=;]+$/.test(pair)) continue;
    throw new CniError(
      ErrorCode.InvalidEnvironment,
      `Cannot put ${JSON.stringify(pair)} into CNI_ARGS: ` +
        'a key and a value are needed, without "=" and ";" in them',
    );
  }
}
