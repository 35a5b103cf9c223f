/**
 * Pods, as described by the program that runs them.
 *
 * @module
 */

import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import type { CniArgs } from "../libcni/mod.ts";

/** The pod's primary interface, the same in every pod. */
export const POD_IFNAME = "eth0";

/** A host port that is mapped to a pod's port. */
export interface PortMapping {
  /** 1 to 65535; mappings with less are ignored. */
  readonly hostPort: number;
  /** 1 to 65535. */
  readonly containerPort: number;
  /** `tcp`, `udp` or `sctp`, case-insensitive; default `tcp`. */
  readonly protocol?: string;
  /** The host's address; default all. */
  readonly hostIp?: string;
}

/** A range to allocate an address from, as text. */
export interface IpRange {
  /** Such as `10.1.2.0/24`. */
  readonly subnet: string;
  /** First address; default the subnet's first. */
  readonly rangeStart?: string;
  /** Last address; default the subnet's last. */
  readonly rangeEnd?: string;
  /** Gateway; default the subnet's first address. */
  readonly gateway?: string;
}

/** A pod's DNS configuration, as in the CRI. */
export interface PodDns {
  /** Addresses of name servers, in order of preference. */
  readonly servers?: readonly string[];
  /** Domains to try for short names, in order. */
  readonly searches?: readonly string[];
  /** Such as `ndots:5`. */
  readonly options?: readonly string[];
}

/** A pod's names. Operations on pods with the same names run one after the other. */
export interface PodNames {
  /** The Kubernetes namespace. */
  readonly namespace: string;
  /** The pod's name in that namespace. */
  readonly name: string;
}

/** A pod's names and its sandbox, which identify it. */
export interface PodSandbox extends PodNames {
  /** ID of the sandbox: CNI_CONTAINERID. */
  readonly containerId: string;
  /** Path of the sandbox's network namespace; "" if it was deleted. */
  readonly netns: string;
}

/** A pod and its network options. */
export interface Pod extends PodSandbox {
  /** K8S_POD_UID of CNI_ARGS. */
  readonly uid?: string;
  /** Capability `io.kubernetes.cri.pod-annotations`; two of them set its bandwidth. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** `args.cni.labels` of every plugin's configuration. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Capability `portMappings`. */
  readonly portMappings?: readonly PortMapping[];
  /** Capability `dns`. */
  readonly dns?: PodDns;
  /** Capability `ipRanges`: one address from each; default the node's PodCIDRs. */
  readonly ipRanges?: readonly (readonly IpRange[])[];
  /** Capability `cgroupPath`. */
  readonly cgroupPath?: string;
  /** Any other capability, such as `ips` or `mac`; overrides the ones above. */
  readonly capabilityArgs?: JsonObject;
  /** Additional CNI_ARGS pairs. */
  readonly cniArgs?: CniArgs;
}

/** Names a pod as kubelet does. Source: kubelet `BuildPodFullName`. */
export function formatFullName({ namespace, name }: PodNames): string {
  return `${name}_${namespace}`;
}

/** The CNI_ARGS key that marks an attachment as a pod's. */
export const SANDBOX_KEY = "K8S_POD_INFRA_CONTAINER_ID";

/**
 * Lists the CNI_ARGS of a pod.
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
 * Checks that CNI_ARGS can describe a pod.
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

/** Operations on a pod, as kubelet's metrics name them; the last one is new. */
export type PodOperation =
  | "set_up_pod"
  | "tear_down_pod"
  | "get_pod_network_status"
  | "check_pod";

/** Source: kubelet pkg/kubelet/dockershim/network/plugins.go `PluginManager`. */
const SENTENCES: Readonly<Record<PodOperation, (pod: string) => string>> = {
  set_up_pod: (pod) => `networkPlugin cni failed to set up pod ${pod} network`,
  tear_down_pod: (pod) =>
    `networkPlugin cni failed to teardown pod ${pod} network`,
  get_pod_network_status: (pod) =>
    `networkPlugin cni failed on the status hook for pod ${pod}`,
  check_pod: (pod) => `networkPlugin cni failed to check pod ${pod} network`,
};

/**
 * A failed operation on a pod. The cause is the underlying error, and the code is
 * the plugin's if a plugin failed.
 */
export class PodNetworkError extends CniError {
  /** What failed. */
  readonly operation: PodOperation;
  /** The pod, as `name_namespace`. */
  readonly pod: string;

  /** Builds the error of an operation. */
  constructor(operation: PodOperation, pod: PodNames, cause: unknown) {
    const fullName = formatFullName(pod);
    const sentence = SENTENCES[operation](JSON.stringify(fullName));
    super(toCniError(cause).code, sentence, { cause });
    this.operation = operation;
    this.pod = fullName;
  }

  /** Formats the error as kubelet logs it, in one sentence. */
  override toString(): string {
    return describeError(this);
  }
}
