/**
 * Resolves selected networks to the configurations that are run: in the files of
 * the node, or in the Kubernetes API.
 *
 * Code for Kubernetes is only loaded, and the API only asked, if a selected
 * network may be a NetworkAttachmentDefinition.
 *
 * Source: multus-cni pkg/k8sclient/k8sclient.go `getNetDelegate`,
 * `GetNetworkDelegates`.
 *
 * @module
 */

import { yieldToEventLoop } from "../../../base/deadline.ts";
import { describeError } from "../../../base/error.ts";
import type { NetworkConf, NetworkConfList } from "../../../libcni/conf.ts";
import { encodeJson } from "../../../base/json/json_bytes.ts";
import type { Log } from "../../../base/log/log.ts";
import { type MultusConfig, nodePath } from "../model/config.ts";
import {
  type Delegate,
  loadDelegate,
  type NetworkSelection,
  refuseSelf,
  type Selection,
  toDelegate,
} from "../model/delegate.ts";
import { inContext, NetworkError } from "../model/network_error.ts";
import type {
  AttachmentDefinitions,
  DefinitionSource,
  DeviceSource,
} from "./attachment_definitions.ts";
import {
  findFirstNetworkFile,
  findNetworkFile,
  loadAuxiliaryChain,
  readNetworkFile,
} from "./network_files.ts";
import { isDirectory } from "../../../base/files/io.ts";

/** Where networks are looked up. */
export interface ResolveQuery extends DeviceSource {
  readonly config: MultusConfig;
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
 * Resolves networks one after the other: devices are taken in the order of
 * attachment.
 *
 * @throws {NetworkError} If the API has no such network, or cannot be
 *   asked
 * @throws {CniError} 7 If a network is malformed; what `takeDevice` throws
 */
export async function resolveAll(
  selections: readonly Selection[],
  query: ResolveQuery,
): Promise<Delegate[]> {
  using definitions = await fetchDefinitions(selections, query);
  const delegates: Delegate[] = [];
  for (const selection of selections) {
    await yieldToEventLoop();
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

/** Starts to fetch all definitions at the same time. */
async function fetchDefinitions(
  selections: readonly Selection[],
  { client, signal }: ResolveQuery,
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
  query: ResolveQuery,
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
    case "auxiliary":
      return loadAuxiliaryChain(selection.name, query);
  }
}

/**
 * Resolves a name to its definition or, without one, to the file with that CNI
 * name. A file also serves if the API cannot be asked: a node with its networks
 * in files does not need it.
 */
async function resolveNamed(
  network: NetworkSelection,
  query: ResolveQuery,
  definitions: AttachmentDefinitions | undefined,
): Promise<Delegate> {
  const findFile = (): Delegate =>
    toDelegate(findNetworkFile(query.config.confDir, network.name));
  if (definitions === undefined) return findFile();
  try {
    return await definitions.resolve(network, query);
  } catch (error) {
    const isMissing = error instanceof NetworkError &&
      error.event.reason === "NoNetworkFound";
    if (!isMissing) throw error;
    return fallBackToFile(error, findFile);
  }
}

/** Falls back to a file; without one, the error names both. */
function fallBackToFile(
  missing: NetworkError,
  findFile: () => Delegate,
): Delegate {
  try {
    return findFile();
  } catch (error) {
    throw missing.withMessage(`${missing.message}; ${describeError(error)}`);
  }
}

function readPath(path: string): NetworkConfList | NetworkConf {
  // A missing path is not a directory: reading it as a file then reports the error.
  return isDirectory(path) ? findFirstNetworkFile(path) : readNetworkFile(path);
}
