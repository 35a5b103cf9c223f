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
import type { IpRange, Pod, PodDns, PortMapping } from "./pod.ts";
import { CniError, ErrorCode, toCniError } from "../base/error.ts";

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

/** The lowest and the highest rate that Kubernetes accepts, in bits per second. */
const LEAST = 1_000n, MOST = 1_000_000_000_000_000n;

/**
 * The burst that goes with a rate, in bits. It means "no limit".
 *
 * It is kubelet's, 2^31 - 1. With containerd's, 2^32 - 1, the Go plugin's
 * arithmetic overflows at rates below 16 Mbit/s, with this below 8 Mbit/s.
 */
const BURST_BITS = 0x7fff_ffff;

/**
 * Reads the capability `bandwidth` from a pod's annotations, in bits and bits
 * per second. Ingress is traffic to the pod.
 *
 * Source: kubelet `buildCNIRuntimeConf`, k8s.io/kubernetes pkg/util/bandwidth
 * `ExtractPodBandwidthResources`.
 *
 * @returns Undefined without the annotation
 * @throws {CniError} 7 If one cannot be read, or is below 1k or above 1P
 */
export function readBandwidth(
  annotations: Readonly<Record<string, string>> = {},
): JsonObject | undefined {
  const ingress = readRate(annotations, "kubernetes.io/ingress-bandwidth");
  const egress = readRate(annotations, "kubernetes.io/egress-bandwidth");
  if (ingress === undefined && egress === undefined) return undefined;
  return {
    ...ingress && { ingressRate: ingress, ingressBurst: BURST_BITS },
    ...egress && { egressRate: egress, egressBurst: BURST_BITS },
  };
}

function readRate(
  annotations: Readonly<Record<string, string>>,
  key: string,
): number | undefined {
  if (!Object.hasOwn(annotations, key)) return undefined;
  const text = annotations[key] ?? "";
  try {
    return parseRate(text);
  } catch (error) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "failed to get pod bandwidth from annotations",
      {
        details: `${key}=${JSON.stringify(text)}: ${toCniError(error).message}`,
      },
    );
  }
}

function parseRate(text: string): number {
  const rate = parseQuantity(text);
  const refuse = (why: string): CniError =>
    new CniError(
      ErrorCode.InvalidNetworkConfig,
      `resource is unreasonably ${why}`,
    );
  if (rate < LEAST) throw refuse("small (< 1kbit)");
  if (rate > MOST) throw refuse("large (> 1Pbit)");
  return Number(rate);
}

/** Source: k8s.io/apimachinery pkg/api/resource/suffix.go. */
const POWERS_OF_TEN: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  "": 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};

const POWERS_OF_TWO: Readonly<Record<string, number>> = {
  Ki: 10,
  Mi: 20,
  Gi: 30,
  Ti: 40,
  Pi: 50,
  Ei: 60,
};

/** The message of Kubernetes for an invalid quantity. */
const GRAMMAR =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/**
 * Parses a quantity, rounded up to an integer.
 *
 * Source: k8s.io/apimachinery pkg/api/resource/quantity.go `ParseQuantity` and
 * `Quantity.Value`.
 *
 * @throws {CniError} 7 if it is invalid
 */
export function parseQuantity(text: string): bigint {
  const [, sign = "", whole = "", fraction = "", suffix = ""] =
    /^([+-]?)(\d*)(?:\.(\d*))?([A-Za-z]*(?:[eE][+-]?\d+)?)$/.exec(text) ?? [];
  const scale = findScale(suffix);
  if (scale === undefined || whole + fraction === "") throw malformed();
  const digits = BigInt(`${sign === "-" ? "-" : ""}${whole}${fraction}`);
  const exponent = scale.ten - fraction.length;
  const numerator = (digits << BigInt(scale.two)) *
    10n ** BigInt(Math.max(exponent, 0));
  return divideUp(numerator, 10n ** BigInt(Math.max(-exponent, 0)));
}

function malformed(): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, GRAMMAR);
}

/** The multiplier of a suffix. */
interface Scale {
  /** Exponent of ten. */
  readonly ten: number;
  /** Exponent of two. */
  readonly two: number;
}

/** Larger exponents saturate: int64 has 19 digits. */
const LARGEST_EXPONENT = 100;

function findScale(suffix: string): Scale | undefined {
  const ten = POWERS_OF_TEN[suffix];
  if (ten !== undefined) return { ten, two: 0 };
  const two = POWERS_OF_TWO[suffix];
  if (two !== undefined) return { ten: 0, two };
  if (!/^[eE][+-]?\d+$/.test(suffix)) return undefined;
  const exponent = Number(suffix.slice(1));
  const limit = Math.min(Math.abs(exponent), LARGEST_EXPONENT);
  return { ten: Math.sign(exponent) * limit, two: 0 };
}

function divideUp(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator;
  return numerator > quotient * denominator ? quotient + 1n : quotient;
}
