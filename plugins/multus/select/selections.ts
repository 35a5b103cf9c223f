/**
 * The networks that a pod is to be attached to, in order, before any of them is
 * looked up: the master, the other networks of every pod, the networks of the
 * pod's annotation, and the auxiliary chain.
 *
 * Source: multus-cni pkg/types/conf.go `LoadNetConf`,
 * pkg/k8sclient/k8sclient.go `GetDefaultNetworks`, `TryLoadPodDelegates`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import type { JsonObject } from "../../../cni/json/json.ts";
import type { MultusConfig } from "../model/config.ts";
import { inContext } from "../model/failure.ts";
import type { ChosenNetworks } from "./annotations.ts";
import type { NetworkSelection } from "../model/delegate.ts";

/** Lists the networks to attach a pod to, beside the master. */
export const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** Names the network that replaces the configuration's master. */
export const DEFAULT_NETWORK = "v1.multus-cni.io/default-network";

/** Where a network's configuration is found. */
export type Selection =
  & {
    /** The step that errors name, as the Go version words it. */
    readonly context?: string;
  }
  & (
    /** Written out in `delegates`. */
    | { readonly kind: "written"; readonly document: JsonObject }
    /** In a file, or in the first file of a folder. */
    | { readonly kind: "path"; readonly path: string }
    /** In a definition, or else in the file with that CNI name. */
    | { readonly kind: "named"; readonly network: NetworkSelection }
    /** In a definition. */
    | { readonly kind: "definition"; readonly network: NetworkSelection }
    /** In the files of the auxiliary chain. */
    | { readonly kind: "auxiliary"; readonly name: string }
  );

/** Decides which networks a pod has. */
export interface SelectionQuery {
  readonly config: MultusConfig;
  /** "" if the container does not belong to a pod. */
  readonly podNamespace: string;
  /** The pod's; ignored without Kubernetes. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /** Undefined without Kubernetes. */
  readonly client?: unknown;
}

/**
 * Lists the networks of a pod.
 *
 * @returns The master first
 * @throws {CniError} 7 If the configuration has no network, or an annotation is
 *   malformed or names a network that the pod may not use
 */
export async function listSelections(
  query: SelectionQuery,
): Promise<Selection[]> {
  const { master, others } = await readChosen(query);
  const [configured, ...defaults] = listConfigured(query);
  return [
    master ? definition(MASTER, master) : configured,
    ...defaults,
    ...others.map((network) => definition(OTHERS, network)),
    ...listAuxiliary(query.config),
  ];
}

const ANNOTATED = "error loading k8s delegates k8s args";
const MASTER =
  `${ANNOTATED}: tryLoadK8sPodDefaultNetwork: failed getting the delegate`;
const OTHERS = `${ANNOTATED}: GetNetworkDelegates: failed getting the delegate`;

function definition(context: string, network: NetworkSelection): Selection {
  return { kind: "definition", network, context };
}

async function readChosen(
  { annotations = {}, client, podNamespace, config }: SelectionQuery,
): Promise<ChosenNetworks> {
  const { [NETWORKS]: networks, [DEFAULT_NETWORK]: defaultNetwork } =
    annotations;
  const isChosen = networks !== undefined || defaultNetwork !== undefined;
  if (client === undefined || !isChosen) return { others: [] };
  const { readAnnotations } = await import("./annotations.ts");
  const query = { networks, defaultNetwork, podNamespace, config };
  try {
    return readAnnotations(query);
  } catch (error) {
    throw inContext(ANNOTATED, error);
  }
}

/**
 * Lists the networks that the configuration has for every pod, the master first.
 *
 * @throws {CniError} 7 If it has none
 */
export function listConfigured(
  query: SelectionQuery,
): [Selection, ...Selection[]] {
  const { clusterNetwork, multusNamespace } = query.config;
  if (clusterNetwork === undefined) return listWritten(query.config);
  const step = "failed to get clusterNetwork/defaultNetworks";
  const ofCluster =
    `${step}: GetDefaultNetworks: failed to get clusterNetwork ${clusterNetwork} in namespace ${multusNamespace}`;
  return [
    locate(clusterNetwork, multusNamespace, ofCluster),
    ...listDefaultNetworks(query).map((network) =>
      locate(network, multusNamespace, step)
    ),
  ];
}

function listWritten({ delegates }: MultusConfig): [Selection, ...Selection[]] {
  const step = "error loading netconf";
  const [master, ...others] = delegates.map((document, index): Selection => {
    const context = `${step}: failed to load delegate ${index} config`;
    return { kind: "written", document, context };
  });
  if (master !== undefined) return [master, ...others];
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `${step}: LoadNetConf: at least one delegate/clusterNetwork must be specified`,
  );
}

/** Pods of system namespaces, which other pods may need to get a network, have none. */
function listDefaultNetworks(
  { config: { defaultNetworks, systemNamespaces }, podNamespace }:
    SelectionQuery,
): readonly string[] {
  return systemNamespaces.includes(podNamespace) ? [] : defaultNetworks;
}

function locate(name: string, namespace: string, context: string): Selection {
  return name.includes("/")
    ? { kind: "path", path: name, context }
    : { kind: "named", network: { namespace, name, request: {} }, context };
}

function listAuxiliary({ auxiliaryChainName }: MultusConfig): Selection[] {
  return auxiliaryChainName === undefined
    ? []
    : [{ kind: "auxiliary", name: auxiliaryChainName }];
}
