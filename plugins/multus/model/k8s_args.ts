/**
 * The pod in CNI_ARGS.
 *
 * @module
 */

import { loadArgs } from "../../../cni/call/args.ts";

/** The pod in CNI_ARGS; "" means absent. */
export interface K8sArgs {
  /** K8S_POD_NAMESPACE. */
  readonly podNamespace: string;
  /** K8S_POD_NAME. */
  readonly podName: string;
  /** K8S_POD_INFRA_CONTAINER_ID: the sandbox's container. */
  readonly infraContainerId: string;
  /** K8S_POD_UID. */
  readonly podUid: string;
}

/** Values of CNI_ARGS by key. */
type ArgTexts = Readonly<Record<string, string | undefined>>;

/**
 * Parses CNI_ARGS with the keys of Kubernetes and `IP` as the known keys. `IP` is not
 * checked: the delegates decide whether they accept a list or a prefix length.
 *
 * Source: multus-cni pkg/k8sclient `GetK8sArgs`, containernetworking/cni
 * pkg/types/args.go `LoadArgs`.
 *
 * @param text The value of CNI_ARGS
 * @throws {CniError} 4 if a pair does not have exactly one `=`, or a key is
 *   unknown without `IgnoreUnknown=1`
 */
export function parseK8sArgs(text: string): K8sArgs {
  const asItIs = (value: string): string => value;
  return pickK8sArgs(loadArgs(text, {
    IP: asItIs,
    K8S_POD_NAMESPACE: asItIs,
    K8S_POD_NAME: asItIs,
    K8S_POD_INFRA_CONTAINER_ID: asItIs,
    K8S_POD_UID: asItIs,
  }));
}

/** Parses CNI_ARGS for DEL; malformed pairs are ignored. */
export function parseK8sArgsLeniently(text: string): K8sArgs {
  return pickK8sArgs(Object.fromEntries(splitPairs(text)));
}

function pickK8sArgs(args: ArgTexts): K8sArgs {
  return {
    podNamespace: args["K8S_POD_NAMESPACE"] ?? "",
    podName: args["K8S_POD_NAME"] ?? "",
    infraContainerId: args["K8S_POD_INFRA_CONTAINER_ID"] ?? "",
    podUid: args["K8S_POD_UID"] ?? "",
  };
}

/** Splits CNI_ARGS into pairs at the first `=`; items without `=` are ignored. */
export function splitPairs(text: string): [key: string, value: string][] {
  return text.split(";")
    .filter((pair) => pair.includes("="))
    .map((pair) => {
      const end = pair.indexOf("=");
      return [pair.slice(0, end), pair.slice(end + 1)];
    });
}
