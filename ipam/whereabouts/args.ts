/**
 * The pod and the requested addresses in CNI_ARGS.
 *
 * @module
 */

import { loadArgs } from "../../cni/call/args.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";

/** The content of CNI_ARGS. */
export interface KnownArgs {
  /** `NAMESPACE/NAME` of the pod; "" if absent. */
  readonly podref: string;
  /** Requested addresses: of the ranges, or beyond them. */
  readonly ips: readonly Cidr[];
  /** Each one applies to the addresses of its subnet. */
  readonly gateways: readonly Ip[];
}

/**
 * Parses CNI_ARGS.
 *
 * Source: whereabouts pkg/types/types.go `IPAMEnvArgs`.
 *
 * @throws {CniError} 4 if it is malformed, or has an unknown key without
 *   `IgnoreUnknown=1`
 */
export function parseArgs(text: string): KnownArgs {
  const asItIs = (value: string): string => value;
  const found = loadArgs(text, {
    IP: (list) => split(list).map(Cidr.parse),
    GATEWAY: (list) => split(list).map(Ip.parse),
    K8S_POD_NAMESPACE: asItIs,
    K8S_POD_NAME: asItIs,
    K8S_POD_INFRA_CONTAINER_ID: asItIs,
    K8S_POD_UID: asItIs,
  });
  const { K8S_POD_NAMESPACE: namespace = "", K8S_POD_NAME: name = "" } = found;
  return {
    podref: name === "" ? "" : `${namespace}/${name}`,
    ips: found.IP ?? [],
    gateways: found.GATEWAY ?? [],
  };
}

function split(list: string): string[] {
  return list.split(",").map((item) => item.trim());
}
