/**
 * Which networks a pod is attached to, in order: the master, what else the
 * configuration has for every pod, what the pod's annotations ask for, and the
 * auxiliary chain.
 *
 * Nothing of Kubernetes is loaded or asked unless a name leads there.
 *
 * Source: multus-cni pkg/k8sclient/k8sclient.go `GetDefaultNetworks`,
 * `TryLoadPodDelegates`.
 *
 * @module
 */

import type { Log } from "../../../cni/log.ts";
import { DEFAULT_NETWORK, NETWORKS } from "./annotations.ts";
import type {
  AttachmentDefinitions,
  DefinitionSource,
} from "./attachment_definitions.ts";
import type { MultusConfig } from "../config.ts";
import {
  listConfiguredKeys,
  resolveConfigured,
} from "./configured_networks.ts";
import type { Delegate } from "./delegate.ts";
import type { DeviceSource } from "./defined_network.ts";
import { inContext } from "./missing_network.ts";
import type { SelectedNetworks } from "./pod_networks.ts";

/** What decides about the networks of a pod. */
export interface NetworksQuery extends DeviceSource {
  readonly config: MultusConfig;
  /** The version of the auxiliary chain: the configuration's. */
  readonly cniVersion: string;
  /** "" if the container is no pod's. */
  readonly podNamespace: string;
  /** The pod's; they are looked at if there is a client. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /** Undefined without Kubernetes: names are then looked for among files only. */
  readonly client?: DefinitionSource | undefined;
  /** Told of an auxiliary chain that is left out. */
  readonly log: Pick<Log, "warn">;
  /** Gives up. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Resolves all networks of a pod.
 *
 * @returns The master first
 * @throws {MissingNetworkError} If the API has no such network, or cannot tell;
 *   it says what the event shall say
 * @throws {CniError} 7 If a network, or the annotation that names it, is
 *   malformed; what `takeDevice` throws
 */
export async function resolveNetworks(
  query: NetworksQuery,
): Promise<Delegate[]> {
  const selected = await inStep(ANNOTATED, () => readAnnotations(query));
  using definitions = await openDefinitions(query);
  definitions?.prefetch([
    ...selected?.master ? [selected.master] : [],
    ...listConfiguredKeys(query, selected?.master !== undefined),
    ...selected?.others ?? [],
  ]);
  const networks = await resolveInOrder(query, definitions, selected);
  const { config: { auxiliaryChainName } } = query;
  if (auxiliaryChainName === undefined) return networks;
  const { loadAuxiliaryChain } = await import("./auxiliary_chain.ts");
  return [...networks, ...loadAuxiliaryChain(auxiliaryChainName, query)];
}

/** One after the other: devices are taken in the order of attachment. */
async function resolveInOrder(
  query: NetworksQuery,
  definitions: AttachmentDefinitions | undefined,
  selected: SelectedNetworks | undefined,
): Promise<Delegate[]> {
  if (definitions === undefined || selected === undefined) {
    return await inStep(
      contextOf(query),
      () => resolveConfigured(query, definitions),
    );
  }
  const { resolveMasterOf, resolveOthersOf } = await import(
    "./pod_networks.ts"
  );
  const master = await inStep(
    ANNOTATED,
    () => resolveMasterOf(selected, definitions, query),
  );
  const configured = await inStep(
    contextOf(query),
    () => resolveConfigured(query, definitions, master),
  );
  const others = await inStep(
    ANNOTATED,
    () => resolveOthersOf(selected, definitions, query),
  );
  return [...configured, ...others];
}

/** What the Go version says of networks that a pod chooses. */
const ANNOTATED = "error loading k8s delegates k8s args";

/** What it says of those that the configuration has for every pod. */
function contextOf({ config: { clusterNetwork } }: NetworksQuery): string {
  return clusterNetwork === undefined
    ? "error loading netconf"
    : "failed to get clusterNetwork/defaultNetworks";
}

async function inStep<T>(context: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw inContext(context, error);
  }
}

/**
 * Resolves the networks that the configuration has for every pod, whatever the
 * annotations ask for.
 *
 * @throws As {@linkcode resolveNetworks}
 */
export async function resolveConfiguredNetworks(
  query: NetworksQuery,
): Promise<Delegate[]> {
  using definitions = await openDefinitions(query);
  definitions?.prefetch(listConfiguredKeys(query));
  return await resolveConfigured(query, definitions);
}

/**
 * Resolves the network that the configuration has as the master: that of STATUS
 * and GC, which are about no pod.
 *
 * @throws As {@linkcode resolveNetworks}
 */
export async function resolveMaster(query: NetworksQuery): Promise<Delegate> {
  const config = { ...query.config, defaultNetworks: [] };
  const [master] = await resolveConfiguredNetworks({ ...query, config });
  // There is no list of them without one.
  return master as Delegate;
}

async function openDefinitions(
  { client, signal }: NetworksQuery,
): Promise<AttachmentDefinitions | undefined> {
  if (client === undefined) return undefined;
  const { AttachmentDefinitions } = await import("./attachment_definitions.ts");
  return new AttachmentDefinitions(client, signal);
}

async function readAnnotations(
  query: NetworksQuery,
): Promise<SelectedNetworks | undefined> {
  const { annotations = {}, client } = query;
  const isChosen = [NETWORKS, DEFAULT_NETWORK]
    .some((key) => annotations[key] !== undefined);
  if (client === undefined || !isChosen) return undefined;
  const { selectNetworks } = await import("./pod_networks.ts");
  return selectNetworks(query);
}
