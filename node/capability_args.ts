/**
 * The capability arguments of a pod.
 *
 * A capability that a pod does not use is omitted, as in containerd. kubelet's
 * empty `portMappings` would override the plugin's configuration.
 *
 * Source: kubelet `buildCNIRuntimeConf`, containerd `cniNamespaceOpts`, CNI
 * CONVENTIONS.md.
 *
 * @module
 */

import {
  type JsonObject,
  type JsonValue,
  omitAbsent,
} from "../base/json/json.ts";
import type { Cidr } from "../net/cidr.ts";
import { readBandwidth } from "./bandwidth_annotations.ts";
import type { IpRange, Pod, PodDns, PortMapping } from "./pod.ts";

/**
 * Builds the capability arguments of a pod.
 *
 * @param podCidrs The node's, one per family
 * @throws {CniError} 7 If an annotation about bandwidth cannot be honoured
 */
export function buildCapabilityArgs(
  pod: Pod,
  podCidrs: readonly Cidr[],
): JsonObject {
  const { annotations = {}, cgroupPath = "" } = pod;
  return {
    ...omitAbsent<JsonObject>({
      portMappings: unlessEmpty(listPortMappings(pod.portMappings)),
      bandwidth: readBandwidth(annotations),
      ipRanges: unlessEmpty(listIpRanges(pod.ipRanges, podCidrs)),
      dns: buildDns(pod.dns),
      "io.kubernetes.cri.pod-annotations": unlessEmpty(annotations),
      cgroupPath: cgroupPath || undefined,
    }),
    ...pod.capabilityArgs,
  };
}

function unlessEmpty<T extends object>(value: T): T | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}

function listPortMappings(mappings: readonly PortMapping[] = []): JsonValue[] {
  return mappings
    .filter(({ hostPort }) => hostPort > 0)
    .map(({ hostPort, containerPort, protocol = "", hostIp = "" }) =>
      omitAbsent<JsonObject>({
        hostPort,
        containerPort,
        protocol: protocol.toLowerCase() || "tcp",
        hostIP: hostIp || undefined,
      })
    );
}

/** The pod gets one address from each member of the outer list. */
function listIpRanges(
  ranges: readonly (readonly IpRange[])[] | undefined,
  podCidrs: readonly Cidr[],
): JsonValue[] {
  const sets: readonly (readonly IpRange[])[] = ranges ??
    podCidrs.map((cidr) => [{ subnet: `${cidr}` }]);
  return sets.map((set) => set.map((range) => ({ ...range })));
}

function buildDns(
  { servers = [], searches = [], options = [] }: PodDns = {},
): JsonObject | undefined {
  if ([servers, searches, options].every(({ length }) => length === 0)) {
    return undefined;
  }
  return {
    servers: [...servers],
    searches: [...searches],
    options: [...options],
  };
}
