/**
 * CNI for node agents: pods in, networks out.
 *
 * @module
 */

export type { SkippedFile } from "./choose_network.ts";
export type { ValidPod, ValidPods } from "./collect_garbage.ts";
export { NodeNetwork } from "./node_network.ts";
export type {
  EndedOperation,
  NodeNetworkOptions,
  NodeStatus,
  PodOptions,
} from "./node_options.ts";
export {
  type IpRange,
  type Pod,
  type PodDns,
  type PodNames,
  PodNetworkError,
  type PodOperation,
  type PodSandbox,
  type PortMapping,
} from "./pod.ts";
export type { PodIps } from "./pod_ips.ts";
export type { PodNetwork } from "./set_up.ts";
