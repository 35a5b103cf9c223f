/**
 * The annotations by which pods choose their networks.
 *
 * ```
 * k8s.v1.cni.cncf.io/networks: macvlan, other-ns/ipvlan@ext0
 * k8s.v1.cni.cncf.io/networks: [{ "name": "macvlan", "ips": ["10.1.1.11/24"] }]
 * ```
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 4.1; multus-cni pkg/k8sclient/k8sclient.go `parsePodNetworkAnnotation`, which
 * the error texts follow, pkg/types/types.go `NetworkSelectionElement`.
 *
 * @module
 */

import * as z from "zod/mini";
import { fitsInterfaceName } from "../../../net/interface_name.ts";
import { checkInterfaceName } from "../../../cni/call/args.ts";
import { ipSchema, optional, routeSchema } from "../../../cni/config/types.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../../base/error.ts";
import {
  decode,
  type JsonObject,
  omitAbsent,
  once,
  parseJson,
} from "../../../base/json/json.ts";
import {
  bandwidthEntrySchema,
  type MultusConfig,
  portMappingsSchema,
} from "../model/config.ts";
import {
  type AttachmentRequest,
  type NetworkSelection,
  ROUTES,
} from "../model/delegate.ts";
import { checkIp, isHardwareAddress } from "./addresses.ts";
import { requestedIps } from "./pod_requests.ts";
import { checkRequestedRoutes } from "./requested_routes.ts";

/** The networks that a pod chooses by its annotations. */
export interface ChosenNetworks {
  /** Replaces the configuration's master. */
  readonly master?: NetworkSelection;
  /** In the order of attachment. */
  readonly others: readonly NetworkSelection[];
}

/** The annotations' texts, and which networks the pod may use. */
export interface AnnotationQuery {
  /** Undefined or "" if the pod has no such annotation. */
  readonly networks: string | undefined;
  /** Undefined if the pod has no such annotation. */
  readonly defaultNetwork: string | undefined;
  readonly podNamespace: string;
  readonly config: MultusConfig;
}

/**
 * Reads the annotations, and checks that the pod may use the networks.
 *
 * @throws {CniError} 7 If one is malformed, or names a network that the pod is
 * not allowed to use
 */
export function readAnnotations(query: AnnotationQuery): ChosenNetworks {
  const { networks = "", defaultNetwork, podNamespace, config } = query;
  const others = parseNetworks(networks, podNamespace);
  const permitted = [podNamespace, ...config.nonIsolatedNamespaces];
  others.forEach((network) => checkIsolation(network, permitted, query));
  if (defaultNetwork === undefined) return { others };
  const master = parseDefaultNetwork(defaultNetwork, config.multusNamespace);
  // The reference lets a pod take its master from any namespace.
  checkIsolation(master, [...permitted, config.multusNamespace], query);
  return { master, others };
}

function checkIsolation(
  { namespace }: NetworkSelection,
  permitted: readonly string[],
  { config, podNamespace }: AnnotationQuery,
): void {
  if (!config.namespaceIsolation || permitted.includes(namespace)) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "GetNetworkDelegates: namespace isolation enabled, annotation violates " +
      `permission, pod is in namespace ${podNamespace} but refers to target ` +
      `namespace ${namespace}`,
  );
}

/**
 * Limits an annotation, far above what pods use. One of 256 KiB has room for a
 * hundred thousand networks, and each address that it requests is locked.
 */
const MAX_NETWORKS = 128, MAX_PORT_MAPPINGS = 128;
/** Requested addresses of a network, and of all networks. */
const MAX_NETWORK_IPS = 16, MAX_IPS = 128;

/**
 * Parses the networks annotation.
 *
 * @param podNamespace The default namespace
 * @returns The networks in the order of attachment; none for ""
 * @throws {CniError} 7 If it is malformed, or contains more than 128 networks,
 *   128 addresses, 16 addresses for a network, or 128 port mappings
 */
export function parseNetworks(
  text: string,
  podNamespace: string,
): NetworkSelection[] {
  if (text === "") return [];
  const selections = /[[{"]/.test(text)
    ? parseJsonNetworks(text, podNamespace)
    : text.split(",").map((item) => parseItem(item, podNamespace));
  const { length } = selections;
  if (length > MAX_NETWORKS) {
    throw malformed(
      `the annotation names ${length} networks; a pod can have ${MAX_NETWORKS}`,
    );
  }
  selections.forEach(checkSelection);
  checkCounts(selections);
  checkRequestedRoutes(selections);
  return selections;
}

function checkCounts(selections: readonly NetworkSelection[]): void {
  let ips = 0, mappings = 0;
  for (const { name, request } of selections) {
    const { length } = requestedIps(request);
    if (length > MAX_NETWORK_IPS) {
      throw malformed(
        `network ${JSON.stringify(name)} requests ${length} addresses; ` +
          `a network can have ${MAX_NETWORK_IPS}`,
      );
    }
    ips += length;
    mappings += request.portMappings?.length ?? 0;
  }
  if (ips > MAX_IPS) {
    throw malformed(
      `the annotation requests ${ips} addresses; a pod can have ${MAX_IPS}`,
    );
  }
  if (mappings <= MAX_PORT_MAPPINGS) return;
  throw malformed(
    `the annotation requests ${mappings} port mappings; ` +
      `a pod can have ${MAX_PORT_MAPPINGS}`,
  );
}

/** Names that objects of Kubernetes can have. Source: RFC 1123. */
const OBJECT_NAME =
  /^[a-z\d]([-a-z\d]*[a-z\d])?(\.[a-z\d]([-a-z\d]*[a-z\d])?)*$/;

function checkSelection(
  { name, namespace, request: { ifName } }: NetworkSelection,
  index: number,
): void {
  const item = `item ${index + 1}`;
  if (name === "") throw malformed(`${item} names no network`);
  for (const [key, value] of Object.entries({ name, namespace })) {
    if (OBJECT_NAME.test(value)) continue;
    const hint = key === "name" && value.includes("/")
      ? '; the namespace has its own key, "namespace"'
      : "";
    throw malformed(
      `${item}: no object can have the ${key} ${JSON.stringify(value)}${hint}`,
    );
  }
  if (ifName === undefined) return;
  try {
    checkRequestedName(ifName);
  } catch (error) {
    const { message } = toCniError(error);
    throw malformed(`${item}: interface ${JSON.stringify(ifName)}: ${message}`);
  }
}

/**
 * Refuses names that the kernel would refuse or change: it replaces `%d` by a
 * number, and treats the byte 0xA0 as a space. A NUL can neither be in a name
 * nor in an environment variable.
 *
 * Source: net/core/dev.c `dev_valid_name`, `__dev_alloc_name`.
 *
 * @throws {CniError} 4 If no link can have the name
 */
function checkRequestedName(name: string): void {
  checkInterfaceName(name);
  const isPossible = name.isWellFormed() && !/[\0%]/.test(name) &&
    !new TextEncoder().encode(name).includes(0xa0);
  if (isPossible) return;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    "interface name has a character that the kernel does not allow",
  );
}

/**
 * Parses the default-network annotation: one network, in the same grammar.
 *
 * @param multusNamespace The default namespace
 * @throws {CniError} 7 If it is malformed, or names none or several
 */
export function parseDefaultNetwork(
  text: string,
  multusNamespace: string,
): NetworkSelection {
  const parse = (): NetworkSelection[] => {
    if (text !== "") return parseNetworks(text, multusNamespace);
    throw malformed('pod annotation does not have "network" as key');
  };
  const [selection, ...others] = inLoading("failed to parse CRD object", parse);
  if (selection !== undefined && others.length === 0) return selection;
  const count = selection === undefined ? "no" : "more than one";
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `${LOADING}: ${count} default network is specified: ${text}`,
  );
}

const LOADING = "tryLoadK8sPodDefaultNetwork";

function inLoading<T>(context: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    throw new CniError(error.code, `${LOADING}: ${context}: ${error.message}`);
  }
}

function malformed(problem: string): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `parsePodNetworkAnnotation: ${problem}`,
  );
}

/** Parses `namespace/name@interface`; namespace and interface are optional. */
function parseItem(item: string, defaultNamespace: string): NetworkSelection {
  const [name = "", namespace = "", ...tooMany] = splitTrimmed(item, "/")
    .reverse();
  if (tooMany.length > 0) throw invalid("Invalid network object", "/");
  const [network = "", ifName = "", ...more] = splitTrimmed(name, "@");
  if (more.length > 0) throw invalid("Invalid network object", "@");
  checkLabel(namespace);
  checkLabel(network);
  checkInterface(ifName);
  return {
    name: network,
    namespace: namespace || defaultNamespace,
    request: ifName === "" ? {} : { ifName },
  };
}

function splitTrimmed(text: string, separator: string): string[] {
  return text.split(separator).map((part) => part.trim());
}

function invalid(problem: string, separator: string): CniError {
  return malformedItem(`${problem} (failed at '${separator}')`);
}

function malformedItem(problem: string): CniError {
  return malformed(`parsePodNetworkObjectName: ${problem}`);
}

/** Checks a name or namespace. Dots are allowed in the JSON form only. */
function checkLabel(text: string): void {
  if (text === "" || /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(text)) return;
  throw malformedItem(
    "Failed to parse: one or more items did not match comma-delimited format " +
      "(must consist of lower case alphanumeric characters). Must start and " +
      `end with an alphanumeric character), mismatch @ '${text}'`,
  );
}

function checkInterface(name: string): void {
  if (fitsInterfaceName(name) && !/[ \t\n\v\f\r/]/.test(name)) return;
  throw malformedItem(
    "Failed to parse interface name: must be less than 15 chars and not " +
      `contain '/' or spaces. interface name '${name}'`,
  );
}

const networksSchema = once(() => {
  const text = optional(z.string());
  return z.array(z.object({
    name: text,
    namespace: text,
    interface: text,
    // The earlier name of `interface`.
    interfaceRequest: text,
    ips: optional(z.array(z.string())),
    mac: text,
    "infiniband-guid": text,
    bandwidth: optional(bandwidthEntrySchema()),
    portMappings: optional(portMappingsSchema()),
    "cni-args": optional(z.looseObject({})),
    // The reference reads "" as an IPv6 gateway without an address; that can
    // only be a mistake.
    "default-route": optional(z.array(ipSchema())),
    [ROUTES]: optional(z.array(routeSchema())),
    deviceID: text,
    "ipam-claim-reference": text,
  }));
});

type Element = z.output<ReturnType<typeof networksSchema>>[number];

/**
 * Parses a list of networks; unknown keys are ignored.
 *
 * @param namespace The default namespace
 * @returns The networks as written; a missing name is ""
 * @throws {CniError} 7 If it is malformed
 */
export function parseJsonNetworks(
  text: string,
  namespace: string,
): NetworkSelection[] {
  return decodeNetworks(text).map((element) => {
    checkAddresses(element);
    return {
      name: element.name ?? "",
      namespace: element.namespace || namespace,
      request: toRequest(element),
    };
  });
}

function decodeNetworks(text: string): Element[] {
  try {
    return decode(networksSchema(), parseJson(text), "networks");
  } catch (error) {
    throw malformed(
      "failed to parse pod Network Attachment " +
        `Selection Annotation JSON format: ${describeError(error)}`,
    );
  }
}

function toRequest(element: Element): AttachmentRequest {
  return omitAbsent<AttachmentRequest>({
    ifName: element.interface || element.interfaceRequest || undefined,
    mac: element.mac || undefined,
    infinibandGuid: element["infiniband-guid"] || undefined,
    ips: element.ips,
    // The document is JSON, so these are also JSON.
    bandwidth: element.bandwidth as JsonObject | undefined,
    portMappings: element.portMappings as JsonObject[] | undefined,
    cniArgs: element["cni-args"] as JsonObject | undefined,
    defaultRoute: element["default-route"],
    routes: element[ROUTES],
    deviceId: element.deviceID || undefined,
    claim: element["ipam-claim-reference"] || undefined,
  });
}

/** Checks texts that plugins receive unchanged. */
function checkAddresses(element: Element): void {
  const { mac = "", "infiniband-guid": guid = "", ips = [] } = element;
  if (ips.length > 0 && element["ipam-claim-reference"]) {
    throw malformed('"ips" and "ipam-claim-reference" cannot be combined');
  }
  checkHardwareAddress(mac, "failed to mac");
  checkHardwareAddress(guid, "failed to validate infiniband GUID");
  ips.forEach(checkIp);
}

function checkHardwareAddress(text: string, problem: string): void {
  if (text === "" || isHardwareAddress(text)) return;
  throw malformed(
    `${problem}: address ${text}: invalid MAC address`,
  );
}
