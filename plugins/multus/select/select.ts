/**
 * Selects the networks to attach a pod to, in order: the master, the other
 * networks of every pod, the networks of the pod's annotation, and the auxiliary
 * chain.
 *
 * Source: multus-cni pkg/types/conf.go `LoadNetConf`,
 * pkg/k8sclient/k8sclient.go `GetDefaultNetworks`, `TryLoadPodDelegates`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import type { Log } from "../../../base/log/log.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { K8sArgs } from "../model/k8s_args.ts";
import type { MultusConfig } from "../model/config.ts";
import type {
  Delegate,
  NetworkSelection,
  Selection,
} from "../model/delegate.ts";
import { inContext } from "../model/network_error.ts";
import type { Cluster } from "../pod/cluster.ts";
import type { PodInfo } from "../pod/pod.ts";
import type { ChosenNetworks } from "./annotations.ts";
import { definitionsOf, deviceLookup, evidenceFinder } from "./lookups.ts";
import { resolveAll, type ResolveQuery } from "./resolve.ts";

/** The parts of a call that selecting networks needs. */
export interface SelectingCall {
  readonly call: Pick<Call<MultusConfig>, "config" | "cniVersion" | "signal">;
  /** The pod, from CNI_ARGS. */
  readonly k8s: K8sArgs;
  readonly cluster: Cluster;
  readonly log: Pick<Log, "warn">;
}

/**
 * Selects the networks of a call's pod, and marks those that lose default routes
 * to another one.
 *
 * @param pod Undefined without Kubernetes: selects the configuration's networks
 * @param signal Aborts the requests
 * @returns The master first
 * @throws {CniError} 7 If a network is missing or malformed, 11 if the API
 *   cannot be asked
 */
export async function selectDelegates(
  session: SelectingCall,
  pod: PodInfo | undefined,
  signal: AbortSignal | undefined = session.call.signal,
): Promise<Delegate[]> {
  const query = buildQuery(session, pod, signal);
  const delegates = await resolveNetworks(query);
  if (delegates.every(({ request }) => !request.defaultRoute)) {
    return delegates;
  }
  const { markDefaultRoutes } = await import("./default_route_marks.ts");
  return markDefaultRoutes(delegates);
}

/**
 * Resolves the configuration's master, for operations that concern no pod.
 *
 * @throws {CniError} As {@linkcode selectDelegates}
 */
export async function findMaster(
  session: SelectingCall,
  signal: AbortSignal | undefined = session.call.signal,
): Promise<Delegate> {
  return await resolveMaster(buildQuery(session, undefined, signal));
}

function buildQuery(
  session: SelectingCall,
  pod: PodInfo | undefined,
  signal: AbortSignal | undefined,
): NetworksQuery {
  const { call: { config, cniVersion }, k8s, cluster, log } = session;
  return {
    config,
    cniVersion,
    podNamespace: k8s.podNamespace,
    annotations: pod?.annotations,
    client: cluster.isConfigured ? definitionsOf(cluster) : undefined,
    ...pod && deviceLookup(session, pod),
    findEvidence: pod && evidenceFinder(session, pod),
    log,
    signal,
  };
}

/** Decides which networks a pod has, and where they are looked up. */
export interface NetworksQuery
  extends Omit<SelectionQuery, "client">, ResolveQuery {}

/**
 * Resolves all networks of a pod.
 *
 * @returns The master first
 * @throws {NetworkError} If the API has no such network, or cannot be
 *   asked
 * @throws {CniError} 7 If a network, or the annotation that names it, is
 *   malformed; what `takeDevice` throws
 */
export async function resolveNetworks(
  query: NetworksQuery,
): Promise<Delegate[]> {
  const selections = await listSelections(query);
  return await resolveAll(selections, query);
}

/**
 * Resolves the configuration's master, for STATUS and GC, which concern no pod.
 *
 * @throws As {@linkcode resolveNetworks}
 */
export async function resolveMaster(query: NetworksQuery): Promise<Delegate> {
  const [selection] = listConfigured(query);
  const [master] = await resolveAll([selection], query);
  // Only the auxiliary chain may resolve to nothing.
  return master as Delegate;
}

/** Lists the networks to attach a pod to, in addition to the master. */
export const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** Names the network that replaces the configuration's master. */
export const DEFAULT_NETWORK = "v1.multus-cni.io/default-network";

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
 * malformed or names a network that the pod is not allowed to use
 */
export async function listSelections(
  query: SelectionQuery,
): Promise<Selection[]> {
  const { master, others } = await readChosen(query);
  const [configured, ...defaults] = listConfigured(query);
  return [
    master ? definition(MASTER, master) : configured,
    ...omitsDefaultNetworks(query) ? [] : defaults,
    ...others.map((network) => definition(OTHERS, network)),
    ...listAuxiliary(query.config),
  ];
}

/** With the value `none`, a pod has no networks of every pod but the master. */
export const DEFAULT_NETWORKS = "cni.dev/default-networks";

function omitsDefaultNetworks(
  { annotations = {}, client, config: { defaultNetworksAreOptional } }:
    SelectionQuery,
): boolean {
  return defaultNetworksAreOptional && client !== undefined &&
    annotations[DEFAULT_NETWORKS] === "none";
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
function listConfigured(
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
