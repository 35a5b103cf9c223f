/**
 * The networks that the configuration has for every pod: `delegates`, or
 * `clusterNetwork` and `defaultNetworks`.
 *
 * Source: multus-cni pkg/types/conf.go `LoadNetConf`,
 * pkg/k8sclient/k8sclient.go `GetDefaultNetworks`, `getNetDelegate`.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../../cni/error.ts";
import { ifPossible } from "../../../cni/io_failure.ts";
import type { JsonObject } from "../../../cni/json.ts";
import type { NetworkConf, NetworkConfList } from "../../../cni/libcni/conf.ts";
import { encodeJson } from "../../../cni/libcni/json_bytes.ts";
import type {
  AttachmentDefinitions,
  DefinitionKey,
} from "./attachment_definitions.ts";
import type { MultusConfig } from "../config.ts";
import type { DeviceSource } from "./defined_network.ts";
import { type Delegate, loadDelegate, toDelegate } from "./delegate.ts";
import { inContext, MissingNetworkError } from "./missing_network.ts";
import {
  findFirstNetworkFile,
  findNetworkFile,
  readNetworkFile,
} from "./network_files.ts";
import { nodePath } from "../node_path.ts";
import { refuseSelf } from "./self_guard.ts";

/** What decides about the networks of every pod. */
export interface ConfiguredQuery extends DeviceSource {
  readonly config: MultusConfig;
  /** "" if the container is no pod's. */
  readonly podNamespace: string;
}

/**
 * Lists what the configuration names that may be a definition's name.
 *
 * @param isReplaced The pod has a master of its own choice
 */
export function listConfiguredKeys(
  query: ConfiguredQuery,
  isReplaced = false,
): DefinitionKey[] {
  const { clusterNetwork, multusNamespace: namespace } = query.config;
  if (clusterNetwork === undefined) return [];
  return [...isReplaced ? [] : [clusterNetwork], ...listDefaultNetworks(query)]
    .filter((name) => !isPath(name)).map((name) => ({ namespace, name }));
}

/** Pods that the others need to have networks at all do without them. */
function listDefaultNetworks(
  { config: { defaultNetworks, systemNamespaces }, podNamespace }:
    ConfiguredQuery,
): readonly string[] {
  return systemNamespaces.includes(podNamespace) ? [] : defaultNetworks;
}

function isPath(network: string): boolean {
  return network.includes("/");
}

/**
 * Resolves the networks of every pod.
 *
 * @param definitions Undefined without Kubernetes
 * @param chosen Replaces the configuration's master, which is not looked for then
 * @returns At least one
 * @throws {MissingNetworkError} If the API has no such network, or cannot tell
 * @throws {CniError} 7 If there is no network, or one is malformed
 */
export async function resolveConfigured(
  query: ConfiguredQuery,
  definitions: AttachmentDefinitions | undefined,
  chosen?: Delegate,
): Promise<Delegate[]> {
  const { clusterNetwork } = query.config;
  if (clusterNetwork === undefined) {
    const [master, ...others] = loadStaticDelegates(query.config);
    return [chosen ?? master, ...others];
  }
  const resolved = [
    chosen ?? await resolveCluster(clusterNetwork, query, definitions),
  ];
  for (const network of listDefaultNetworks(query)) {
    resolved.push(await resolveNamed(network, query, definitions));
  }
  return resolved;
}

/**
 * Loads the networks that are written in the configuration.
 *
 * @throws {CniError} 7 If there are none, or one is malformed
 */
export function loadStaticDelegates(
  { delegates }: Pick<MultusConfig, "delegates">,
): [Delegate, ...Delegate[]] {
  const [master, ...others] = delegates.map(loadStaticDelegate);
  if (master !== undefined) return [master, ...others];
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "LoadNetConf: at least one delegate/clusterNetwork must be specified",
  );
}

/**
 * Loads one network that is written in the configuration.
 *
 * @param index Its place in `delegates`, from 0
 * @throws {CniError} 7 If it is malformed, or multus itself
 */
export function loadStaticDelegate(
  document: JsonObject,
  index: number,
): Delegate {
  try {
    const delegate = loadDelegate(encodeJson(document));
    refuseSelf(delegate);
    return delegate;
  } catch (error) {
    throw inContext(`failed to load delegate ${index} config`, error);
  }
}

async function resolveCluster(
  network: string,
  query: ConfiguredQuery,
  definitions: AttachmentDefinitions | undefined,
): Promise<Delegate> {
  try {
    return await resolveNamed(network, query, definitions);
  } catch (error) {
    const { multusNamespace } = query.config;
    const context =
      `GetDefaultNetworks: failed to get clusterNetwork ${network} in namespace ${multusNamespace}`;
    throw inContext(context, error);
  }
}

/**
 * Resolves a network by the path of a file or folder, or by a name: that of a
 * definition, else the CNI name of a file.
 *
 * A file is looked for also if the API cannot be asked: a node whose networks
 * are files can do without it.
 */
async function resolveNamed(
  network: string,
  query: ConfiguredQuery,
  definitions: AttachmentDefinitions | undefined,
): Promise<Delegate> {
  if (isPath(network)) return ownNetwork(readPath(nodePath(network)));
  const { confDir, multusNamespace: namespace } = query.config;
  const findFile = (): Delegate =>
    ownNetwork(findNetworkFile(confDir, network));
  if (definitions === undefined) return findFile();
  const { resolveDefined } = await import("./defined_network.ts");
  const selection = { namespace, name: network, request: {} };
  try {
    return await resolveDefined(selection, definitions, query);
  } catch (error) {
    if (!(error instanceof MissingNetworkError)) throw error;
    return orMissing(error, findFile);
  }
}

/** Looks for a file in place of a definition; if there is none both are missing. */
function orMissing(
  missing: MissingNetworkError,
  findFile: () => Delegate,
): Delegate {
  try {
    return findFile();
  } catch (error) {
    const { code, message, eventMessage } = missing;
    const text = `${message}; ${describeError(error)}`;
    throw new MissingNetworkError(code, text, eventMessage);
  }
}

function ownNetwork(conf: NetworkConfList | NetworkConf): Delegate {
  const delegate = toDelegate(conf);
  refuseSelf(delegate);
  return delegate;
}

function readPath(path: string): NetworkConfList | NetworkConf {
  return isDirectory(path) ? findFirstNetworkFile(path) : readNetworkFile(path);
}

/** What is not there is no folder either: reading it as a file says so. */
function isDirectory(path: string): boolean {
  return ifPossible(() => Deno.statSync(path).isDirectory) ?? false;
}
