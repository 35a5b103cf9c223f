/**
 * Resolves the selected networks to the configurations that are run.
 *
 * Code for Kubernetes is only loaded, and the API only asked, if a selected
 * network may be a NetworkAttachmentDefinition.
 *
 * Source: multus-cni pkg/k8sclient/k8sclient.go `getNetDelegate`,
 * `GetNetworkDelegates`.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { ifPossible } from "../../../cni/files/io.ts";
import type { NetworkConf, NetworkConfList } from "../../../cni/libcni/conf.ts";
import { encodeJson } from "../../../cni/libcni/json_bytes.ts";
import type { Log } from "../../../cni/log/log.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { NetworkAttachmentDefinition } from "../../../kube/types.ts";
import type { ResourceMap } from "../devices/resource_map.ts";
import { type MultusConfig, nodePath } from "../model/config.ts";
import { inContext, MissingNetworkError } from "../model/failure.ts";
import type {
  AttachmentDefinitions,
  DefinitionSource,
  DeviceSource,
} from "./attachment_definitions.ts";
import {
  type Delegate,
  loadDelegate,
  type NetworkSelection,
  toDelegate,
} from "../model/delegate.ts";
import type { K8sArgs } from "../model/k8s_args.ts";
import type { Cluster } from "../pod/cluster.ts";
import type { KnownPod } from "../pod/pod.ts";
import {
  findFirstNetworkFile,
  findNetworkFile,
  readNetworkFile,
} from "./network_files.ts";
import {
  listConfigured,
  listSelections,
  type Selection,
  type SelectionQuery,
} from "./selections.ts";
import { refuseSelf } from "../model/self_guard.ts";

/** What selecting networks needs of a call. */
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
  pod: KnownPod | undefined,
  signal: AbortSignal | undefined = session.call.signal,
): Promise<Delegate[]> {
  const delegates = await resolveNetworks(buildQuery(session, pod, signal));
  if (delegates.every(({ request }) => !request.defaultRoute)) {
    return delegates;
  }
  const { markDefaultRoutes } = await import("./annotations.ts");
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
  pod: KnownPod | undefined,
  signal: AbortSignal | undefined,
): NetworksQuery {
  const { call: { config, cniVersion }, k8s, cluster, log } = session;
  return {
    config,
    cniVersion,
    podNamespace: k8s.podNamespace,
    annotations: pod?.annotations,
    client: cluster.isConfigured ? definitionsOf(cluster) : undefined,
    takeDevice: pod && deviceTaker(session, pod),
    log,
    signal,
  };
}

/** Opens the client for the first definition: files need none. */
function definitionsOf(cluster: Cluster): DefinitionSource {
  return {
    async getNetworkAttachmentDefinition(
      ...key
    ): Promise<NetworkAttachmentDefinition> {
      const client = await cluster.client();
      return await client.getNetworkAttachmentDefinition(...key);
    },
  };
}

/** Looks up the devices when the first network needs one. */
function deviceTaker(
  session: SelectingCall,
  pod: KnownPod,
): (resourceName: string) => Promise<string | undefined> {
  let devices: Promise<ResourceMap> | undefined;
  return async (resourceName) => {
    devices ??= readDevices(session, pod);
    return (await devices).take(resourceName);
  };
}

async function readDevices(
  { cluster, log, call: { signal } }: SelectingCall,
  { namespace, name, object }: KnownPod,
): Promise<ResourceMap> {
  const client = await cluster.client();
  const pod = object ?? await client.getPod(namespace, name, { signal });
  const { readResourceMap } = await import("../devices/resource_map.ts");
  return await readResourceMap({ pod, client, log, signal });
}

/** Decides which networks a pod has, and where they are looked up. */
export interface NetworksQuery extends SelectionQuery, DeviceSource {
  /** CNI version of the auxiliary chain: the configuration's. */
  readonly cniVersion: string;
  /** Undefined without Kubernetes: names are then looked up in files only. */
  readonly client?: DefinitionSource | undefined;
  /** Receives a warning if the auxiliary chain is left out. */
  readonly log: Pick<Log, "warn">;
  /** Gives up. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Resolves all networks of a pod.
 *
 * @returns The master first
 * @throws {MissingNetworkError} If the API has no such network, or cannot be
 *   asked
 * @throws {CniError} 7 If a network, or the annotation that names it, is
 *   malformed; what `takeDevice` throws
 */
export async function resolveNetworks(
  query: NetworksQuery,
): Promise<Delegate[]> {
  return await resolveAll(await listSelections(query), query);
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

/** Resolves one after the other: devices are taken in the order of attachment. */
async function resolveAll(
  selections: readonly Selection[],
  query: NetworksQuery,
): Promise<Delegate[]> {
  using definitions = await fetchDefinitions(selections, query);
  const delegates: Delegate[] = [];
  for (const selection of selections) {
    try {
      const delegate = await resolve(selection, query, definitions);
      if (delegate === undefined) continue;
      refuseSelf(delegate);
      delegates.push(delegate);
    } catch (error) {
      const { context } = selection;
      throw context === undefined ? error : inContext(context, error);
    }
  }
  return delegates;
}

/** Starts to fetch all definitions at once. */
async function fetchDefinitions(
  selections: readonly Selection[],
  { client, signal }: NetworksQuery,
): Promise<AttachmentDefinitions | undefined> {
  const networks = selections.flatMap((selection) =>
    "network" in selection ? [selection.network] : []
  );
  if (client === undefined || networks.length === 0) return undefined;
  const { AttachmentDefinitions } = await import("./attachment_definitions.ts");
  const definitions = new AttachmentDefinitions(client, signal);
  definitions.prefetch(networks);
  return definitions;
}

/** @returns Undefined for an auxiliary chain that is left out */
async function resolve(
  selection: Selection,
  query: NetworksQuery,
  definitions: AttachmentDefinitions | undefined,
): Promise<Delegate | undefined> {
  switch (selection.kind) {
    case "written":
      return loadDelegate(encodeJson(selection.document));
    case "path":
      return toDelegate(readPath(nodePath(selection.path)));
    case "named":
      return await resolveNamed(selection.network, query, definitions);
    case "definition":
      return await definitions?.resolve(selection.network, query);
    case "auxiliary": {
      const { loadAuxiliaryChain } = await import("./auxiliary_chain.ts");
      return loadAuxiliaryChain(selection.name, query);
    }
  }
}

/**
 * Resolves a name to its definition, or else to the file with that CNI name. A
 * file also serves if the API cannot be asked: a node with its networks in files
 * does not need it.
 */
async function resolveNamed(
  network: NetworkSelection,
  query: NetworksQuery,
  definitions: AttachmentDefinitions | undefined,
): Promise<Delegate> {
  const findFile = (): Delegate =>
    toDelegate(findNetworkFile(query.config.confDir, network.name));
  if (definitions === undefined) return findFile();
  try {
    return await definitions.resolve(network, query);
  } catch (error) {
    if (!(error instanceof MissingNetworkError)) throw error;
    return orMissing(error, findFile);
  }
}

/** Falls back to a file; without one, the error names both. */
function orMissing(
  missing: MissingNetworkError,
  findFile: () => Delegate,
): Delegate {
  try {
    return findFile();
  } catch (error) {
    throw missing.withMessage(`${missing.message}; ${describeError(error)}`);
  }
}

function readPath(path: string): NetworkConfList | NetworkConf {
  return isDirectory(path) ? findFirstNetworkFile(path) : readNetworkFile(path);
}

/** A missing path is not a folder: reading it as a file then reports the error. */
function isDirectory(path: string): boolean {
  return ifPossible(() => Deno.statSync(path).isDirectory) ?? false;
}
