/**
 * Failures of operations on pods.
 *
 * @module
 */

import { CniError, describeError, toCniError } from "../base/error.ts";
import { formatFullName, type PodNames } from "./pod.ts";

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
