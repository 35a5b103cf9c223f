/**
 * Functions of multus for tools.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { JoinedSignal } from "../../base/deadline.ts";
import { CniError, toCniError } from "../../base/error.ts";
import { ifPossible, readFile } from "../../base/files/io.ts";
import { findValue, isObject, parseJson } from "../../base/json/json.ts";
import type { Environment } from "../../base/process/environment.ts";
import { MULTUS_CACHE_DIR } from "../../cni/config/types.ts";
import type { PluginConf } from "../../libcni/conf.ts";
import { MULTUS_CONF_DIR } from "./model/config.ts";
import type { DefinedAttachment, MissingNetworks } from "./missing_networks.ts";

export type { MissingNetworks };
export {
  MULTUS_LOG_LEVELS,
  type MultusLogLevel,
} from "./operations/operation_log.ts";

/**
 * Describes the problem in the value of the annotation `k8s.v1.cni.cncf.io/networks`;
 * undefined if there is none.
 *
 * @param namespace The pod's namespace
 */
export async function findNetworksProblem(
  networks: string,
  namespace: string,
): Promise<string | undefined> {
  const { parseNetworks } = await import("./select/annotations.ts");
  try {
    parseNetworks(networks, namespace);
    return undefined;
  } catch (error) {
    return toCniError(error).message;
  }
}

/** Time limit of all API requests together, in ms. */
const LIMIT_MS = 5000;

/** The input of {@linkcode readMissingNetworks}. */
export interface MissingNetworksQuery {
  readonly kubeconfig: string;
  readonly env: Environment;
  readonly signal: AbortSignal;
  /** The attachments of the node, which name its pods. */
  readonly attachments: readonly DefinedAttachment[];
}

/**
 * Asks the API server which of the node's pods run without requested networks. Pods
 * for which no request is possible are omitted.
 */
export async function readMissingNetworks(
  { kubeconfig, env, signal, attachments }: MissingNetworksQuery,
): Promise<MissingNetworks[]> {
  const pods = new Set(
    attachments.flatMap(({ pod, isLive }) => isLive && pod ? [pod] : []),
  );
  const found: MissingNetworks[] = [];
  if (pods.size === 0) return found;
  const { isNotFound, KubeError } = await import("../../kube/kube_error.ts");
  const { openKubeClient } = await import("../../kube/client.ts");
  const { findMissingNetworks } = await import("./missing_networks.ts");
  using limit = new JoinedSignal(LIMIT_MS, signal);
  const limits = { signal: limit.signal, overallMs: LIMIT_MS };
  try {
    using client = await openKubeClient({ kubeconfig, env }, limits);
    for (const pod of client === undefined ? [] : pods) {
      const [namespace = "", name = ""] = pod.split("/");
      const object = await client?.getPod(namespace, name, limits)
        .catch((error) => {
          // The runtime is still deleting the pod's sandbox.
          if (!isNotFound(error)) throw error;
        });
      const networks = object &&
        await findMissingNetworks(object, () => Promise.resolve(attachments));
      if (networks?.length) found.push({ pod, networks });
    }
  } catch (error) {
    const isAnswer = error instanceof KubeError || error instanceof CniError;
    // The remaining pods are unknown.
    if (!isAnswer && !limit.signal.aborted) throw error;
  }
  return found;
}

/**
 * Finds the directory in which multus, called directly or through its shim, caches
 * the networks of a container.
 *
 * @param attachment The runtime's attachment
 * @returns Undefined if the runtime's network does not run multus
 */
export function findCacheDirectory(
  { config }: { readonly config: Uint8Array },
): string | undefined {
  const document = ifPossible(() => parseJson(config));
  if (!isObject(document)) return undefined;
  const { plugins = [document] } = document;
  const multus = (Array.isArray(plugins) ? plugins : []).find((plugin) =>
    isObject(plugin) &&
    /^multus(-shim)?$/.test(String(findValue(plugin, "type")))
  );
  if (!isObject(multus)) return undefined;
  const directory = findValue(multus, "cniDir");
  return typeof directory === "string" && directory !== ""
    ? directory
    : MULTUS_CACHE_DIR;
}

/** Keys of multus that name what must be on the node; "" for absent keys. */
export interface MultusKeys {
  /** The file that multus waits for. */
  readonly ready: string;
  /** The network of the cluster: its name or its file. */
  readonly wanted: string;
  /** The directory of networks with a name. */
  readonly directory: string;
  readonly kubeconfig: string;
}

/** Reads the keys; undefined for other plugins. */
export function findMultusKeys(
  { type, document }: PluginConf,
): MultusKeys | undefined {
  if (type !== "multus") return undefined;
  const textOf = (key: string): string => {
    const value = findValue(document, key);
    return typeof value === "string" ? value : "";
  };
  return {
    ready: textOf("readinessindicatorfile"),
    wanted: textOf("clusterNetwork"),
    directory: textOf("confDir") || textOf("cniConf") || MULTUS_CONF_DIR,
    kubeconfig: textOf("kubeconfig"),
  };
}

/** Finds the definition of a container's interface, `namespace/name`. */
export type DefinitionLookup = (ifName: string) => string | undefined;

/**
 * Reads the names of a container's definitions from its scratch file. A network that
 * cannot be decoded might have a definition.
 */
export function readDefinitions(
  cacheDir: string,
  containerId: string,
): DefinitionLookup {
  const list = ifPossible(() =>
    parseJson(readFile(join(cacheDir, containerId)))
  );
  const names = new Map<string, string>();
  for (const [index, entry] of (Array.isArray(list) ? list : []).entries()) {
    if (!isObject(entry)) continue;
    const { Name: name, ifnameRequest: ifName } = entry;
    if (typeof name !== "string" || !name.includes("/")) continue;
    names.set(String(ifName || (index === 0 ? "" : `net${index}`)), name);
  }
  return (ifName) => names.get(ifName);
}
