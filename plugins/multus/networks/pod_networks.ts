/**
 * The networks that a pod chooses by its annotations.
 *
 * Source: multus-cni pkg/k8sclient/k8sclient.go `GetNetworkDelegates`,
 * `tryLoadK8sPodDefaultNetwork`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { DEFAULT_NETWORK, NETWORKS } from "./annotations.ts";
import type { AttachmentDefinitions } from "./attachment_definitions.ts";
import type { MultusConfig } from "../config.ts";
import { type DeviceSource, resolveDefined } from "./defined_network.ts";
import type { Delegate, NetworkSelection } from "./delegate.ts";
import { inContext } from "./missing_network.ts";
import { parseDefaultNetwork, parseNetworks } from "./selection.ts";

/** What a pod chooses. */
export interface SelectedNetworks {
  /** In place of the configuration's master. */
  readonly master?: NetworkSelection;
  /** In the order of attachment. */
  readonly others: readonly NetworkSelection[];
}

/** What decides about the networks that a pod chooses. */
export interface PodQuery extends DeviceSource {
  readonly config: MultusConfig;
  readonly podNamespace: string;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/**
 * Reads the annotations, and checks that the pod may use what it asks for.
 *
 * @throws {CniError} 7 If one is malformed, or names a network out of bounds
 */
export function selectNetworks(
  { config, podNamespace, annotations = {} }: PodQuery,
): SelectedNetworks {
  const { [NETWORKS]: text = "", [DEFAULT_NETWORK]: masterText } = annotations;
  const others = parseNetworks(text, podNamespace);
  const permitted = [podNamespace, ...config.nonIsolatedNamespaces];
  others.forEach((selection) =>
    checkIsolation(selection, permitted, { config, podNamespace })
  );
  if (masterText === undefined) return { others };
  const master = parseDefaultNetwork(masterText, config.multusNamespace);
  // The reference lets a pod take any namespace's network for its master.
  checkIsolation(master, [...permitted, config.multusNamespace], {
    config,
    podNamespace,
  });
  return { master, others };
}

function checkIsolation(
  { namespace }: NetworkSelection,
  permitted: readonly string[],
  { config, podNamespace }: PodQuery,
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
 * Resolves the master that a pod chooses.
 *
 * @returns Undefined if it chooses none
 * @throws As `resolveDefined`
 */
export async function resolveMasterOf(
  { master }: SelectedNetworks,
  definitions: AttachmentDefinitions,
  query: PodQuery,
): Promise<Delegate | undefined> {
  if (master === undefined) return undefined;
  const context = "tryLoadK8sPodDefaultNetwork: failed getting the delegate";
  return await resolveIn(context, master, definitions, query);
}

/**
 * Resolves the other networks that a pod chooses.
 *
 * @throws As `resolveDefined`
 */
export async function resolveOthersOf(
  { others }: SelectedNetworks,
  definitions: AttachmentDefinitions,
  query: PodQuery,
): Promise<Delegate[]> {
  const context = "GetNetworkDelegates: failed getting the delegate";
  const delegates: Delegate[] = [];
  for (const selection of others) {
    delegates.push(await resolveIn(context, selection, definitions, query));
  }
  return delegates;
}

async function resolveIn(
  context: string,
  selection: NetworkSelection,
  definitions: AttachmentDefinitions,
  query: PodQuery,
): Promise<Delegate> {
  try {
    return await resolveDefined(selection, definitions, query);
  } catch (error) {
    throw inContext(context, error);
  }
}
