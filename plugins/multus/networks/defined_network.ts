/**
 * A network that Kubernetes knows, as what a pod is attached to.
 *
 * @module
 */

import type { NetworkAttachmentDefinition } from "../../../kube/types.ts";
import type { AttachmentDefinitions } from "./attachment_definitions.ts";
import {
  type Delegate,
  injectCniArgs,
  injectDeviceId,
  injectName,
  loadDelegate,
  type NetworkSelection,
  toDelegate,
} from "./delegate.ts";
import { inContext } from "./missing_network.ts";
import { findNetworkFile } from "./network_files.ts";
import { refuseSelf } from "./self_guard.ts";

/** Hands out the pod's devices. */
export interface DeviceSource {
  /**
   * Hands out the next device of a resource; undefined if there is none left.
   * Without it networks have no devices.
   */
  readonly takeDevice?:
    | ((resourceName: string) => Promise<string | undefined>)
    | undefined;
}

/** Annotation of a definition with the resource whose device it needs. */
const RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName";

/** Returns the resource whose device a network needs; undefined for none. */
function resourceNameOf(
  { metadata }: NetworkAttachmentDefinition,
): string | undefined {
  return metadata?.annotations?.[RESOURCE_NAME] || undefined;
}

/**
 * Resolves a network that Kubernetes knows.
 *
 * Source: multus-cni pkg/k8sclient/k8sclient.go `getKubernetesDelegate`.
 *
 * @throws {MissingNetworkError} If there is no such network, or the API cannot
 *   be asked
 * @throws {CniError} 5, 6 or 7 if it is malformed; what `takeDevice` throws
 */
export async function resolveDefined(
  selection: NetworkSelection,
  definitions: AttachmentDefinitions,
  { config, takeDevice }: DeviceSource & {
    readonly config: { readonly confDir: string };
  },
): Promise<Delegate> {
  const definition = await definitions.get(selection);
  const delegate = readDefinition(definition, selection, config.confDir);
  refuseSelf(delegate);
  const { request: { cniArgs } } = selection;
  const resourceName = resourceNameOf(definition);
  const withArgs = cniArgs === undefined
    ? delegate
    : injectCniArgs(delegate, cniArgs);
  if (resourceName === undefined) return withArgs;
  const deviceId = await takeDevice?.(resourceName);
  return deviceId === undefined
    ? withArgs
    : injectDeviceId(withArgs, { resourceName, deviceId });
}

/**
 * Reads the configuration of a definition: its own, or if it has none that of a
 * file with the definition's name.
 *
 * @throws {CniError} 5, 6 or 7 if it is malformed or missing
 */
function readDefinition(
  { spec }: NetworkAttachmentDefinition,
  { namespace, name, request }: NetworkSelection,
  confDir: string,
): Delegate {
  const options = { name: `${namespace}/${name}`, request };
  const config = spec?.config ?? "";
  const isWritten = config !== "";
  try {
    return isWritten
      ? loadDelegate(
        injectName(new TextEncoder().encode(config), name),
        options,
      )
      : toDelegate(findNetworkFile(confDir, name), options);
  } catch (error) {
    const context = isWritten
      ? `Cannot read network-attachment-definition "${options.name}"`
      : "GetCNIConfig: err in GetCNIConfigFromFile";
    throw inContext(context, error);
  }
}
