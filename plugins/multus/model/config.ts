/**
 * The configuration of multus.
 *
 * DEL must work with a broken configuration: unreadable keys are omitted, and a
 * missing key matters only when it is used.
 *
 * Source: multus-cni pkg/types/conf.go `LoadNetConf`, pkg/types/types.go `NetConf`.
 *
 * @module
 */

import * as z from "zod/mini";
import { resolve } from "@std/path/posix";
import {
  cidrSchema,
  MULTUS_CACHE_DIR,
  type NetConf,
  optional,
} from "../../../cni/config/types.ts";
import { exists } from "../../../base/files/io.ts";
import {
  type JsonObject,
  omitAbsent,
  once,
  type Schema,
} from "../../../base/json/json.ts";
import type { LogOptions } from "../../../base/log/rotated_file.ts";
import { apiTimeoutSchema } from "../../../kube/api_timeout.ts";
import type { Cidr } from "../../../net/cidr.ts";

/** The decoded configuration; paths are absolute and clean. */
export interface MultusConfig extends NetConf {
  /** Networks of every pod, unchecked; ignored if clusterNetwork is set. */
  readonly delegates: readonly JsonObject[];
  /** The master network: a name or path; undefined if `delegates` contains it. */
  readonly clusterNetwork?: string;
  /** Further networks of every pod outside the system namespaces: names or paths. */
  readonly defaultNetworks: readonly string[];
  /** Whether ADD succeeds without the networks of every pod, except the master. */
  readonly defaultNetworksAreOptional: boolean;
  /** Whether a network is refused if its resource has no device for the pod. */
  readonly requireDevices: boolean;
  /** Namespaces where pods have no {@linkcode defaultNetworks}. */
  readonly systemNamespaces: readonly string[];
  /** Namespace of the NetworkAttachmentDefinitions that the configuration names. */
  readonly multusNamespace: string;
  /** Path of the kubeconfig; undefined: in-cluster credentials, or no API at all. */
  readonly kubeconfig?: string;
  /** How long a request of ADD waits for the API: `apiTimeoutSeconds`. */
  readonly apiTimeoutMs?: number;
  /** Restricts pods to networks of their own namespace. */
  readonly namespaceIsolation: boolean;
  /** Namespaces that isolated pods can also use: `globalNamespaces`. */
  readonly nonIsolatedNamespaces: readonly string[];
  /**
   * Types of plugins that definitions are permitted to run; `*` for all except
   * restricted types.
   */
  readonly definitionTypes: readonly string[];
  /**
   * Keys that definitions are permitted to set although they name objects of the
   * node.
   */
  readonly definitionKeys: readonly string[];
  /** Namespaces whose definitions have the same permissions as files of the node. */
  readonly trustedNamespaces: readonly string[];
  /**
   * The requests that are permitted in pod annotations: requests that a network's
   * definition offers and that conflict with no other container, or any requests.
   */
  readonly podRequests: "offered" | "any";
  /** Additional keys that pods are permitted to set with `cni-args`. */
  readonly podArgs: readonly string[];
  /**
   * Destinations for which pods are permitted to request routes over their networks.
   */
  readonly podRoutes: readonly Cidr[];
  /** File that exists once the master network is ready: `readinessindicatorfile`. */
  readonly readinessIndicatorFile?: string;
  /** Directory with configurations for networks that are found by name. */
  readonly confDir: string;
  /** Directory of the scratch files and of libcni's cache. */
  readonly cniDir: string;
  /** Directory with plugins, searched before the directories in CNI_PATH. */
  readonly binDir: string;
  /** Log file; undefined for none. */
  readonly logFile?: string;
  /** The log level in lower case; the log reports an unknown level. */
  readonly logLevel: string;
  /** Also log to stderr. */
  readonly logToStderr: boolean;
  /** The rotation of log files. */
  readonly logOptions: LogOptions;
  /**
   * The runtime's arguments by capability, unchanged; the names in
   * {@linkcode KNOWN_CAPABILITIES} in this spelling.
   */
  readonly runtimeConfig: JsonObject;
  /** Name of the auxiliary chain: `auxiliaryCNIChainName`. */
  readonly auxiliaryChainName?: string;
}

/** Keys of runtimeConfig for all delegates; other keys are only for the master. */
export const KNOWN_CAPABILITIES = [
  "portMappings",
  "bandwidth",
  "ips",
  "mac",
  "infinibandGUID",
  "deviceID",
  "CNIDeviceInfoFile",
] as const;

/**
 * Reads `portMappings`; other keys are kept.
 *
 * Source: multus-cni pkg/types/types.go `PortMapEntry`.
 */
export const portMappingsSchema = once(() => {
  const port = optional(z.int()), text = optional(z.string());
  return z.array(z.looseObject({
    hostPort: port,
    containerPort: port,
    protocol: text,
    hostIP: text,
  }));
});

/**
 * Reads `bandwidth`, in bits and bits per second; other keys are kept.
 *
 * Source: multus-cni pkg/types/types.go `BandwidthEntry`.
 */
export const bandwidthEntrySchema = once(() => {
  const bits = optional(z.int());
  return z.looseObject({
    ingressRate: bits,
    ingressBurst: bits,
    egressRate: bits,
    egressBurst: bits,
  });
});

/** Reads a path; "" counts as absent. */
const pathSchema = once(() =>
  optional(z.pipe(
    z.string(),
    z.transform((path) => path === "" ? undefined : resolve(path)),
  ))
);

const runtimeConfigSchema = once(() => {
  const text = optional(z.string());
  return z.looseObject({
    portMappings: optional(portMappingsSchema()),
    bandwidth: optional(bandwidthEntrySchema()),
    ips: optional(z.array(z.string())),
    mac: text,
    infinibandGUID: text,
    deviceID: text,
    CNIDeviceInfoFile: text,
  });
});

const logOptionsSchema = once(() => {
  const count = optional(z.int());
  return z.object({
    maxAge: count,
    maxSize: count,
    maxBackups: count,
    compress: optional(z.boolean()),
  });
});

const writtenSchema = once(() => {
  const path = pathSchema();
  const text = optional(z.string()), flag = optional(z.boolean());
  const texts = optional(z.array(z.string()));
  return z.object({
    prevResult: optional(z.looseObject({})),
    delegates: optional(z.array(z.looseObject({}))),
    clusterNetwork: text,
    defaultNetworks: texts,
    defaultNetworksAreOptional: flag,
    requireDevices: flag,
    systemNamespaces: texts,
    multusNamespace: text,
    kubeconfig: path,
    apiTimeoutSeconds: optional(apiTimeoutSchema()),
    namespaceIsolation: flag,
    globalNamespaces: text,
    definitionTypes: texts,
    definitionKeys: texts,
    trustedNamespaces: texts,
    podRequests: optional(z.enum(["offered", "any"])),
    podArgs: texts,
    podRoutes: optional(z.array(cidrSchema())),
    readinessindicatorfile: path,
    confDir: path,
    cniConf: path,
    cniDir: path,
    binDir: path,
    logFile: path,
    logLevel: text,
    logToStderr: flag,
    logOptions: optional(logOptionsSchema()),
    // Runtimes read this key.
    capabilities: optional(z.record(z.string(), z.nullable(z.boolean()))),
    runtimeConfig: optional(runtimeConfigSchema()),
    auxiliaryCNIChainName: text,
    // No effect: failed detachments are always recorded for the next DEL.
    retryDeleteOnError: flag,
    daemonSocketDir: path,
  });
});

type Written = z.output<ReturnType<typeof writtenSchema>>;

/** Builds the schema of the configuration. Unknown keys are ignored. */
export const multusSchema: () => Schema<MultusConfig> = once(() =>
  z.pipe(writtenSchema(), z.transform(complete))
);

function complete(written: Written): MultusConfig {
  const { globalNamespaces = "", logLevel = "" } = written;
  return omitAbsent<MultusConfig>({
    prevResult: written.prevResult,
    // The document is JSON, so these are JSON objects.
    delegates: (written.delegates ?? []) as JsonObject[],
    clusterNetwork: written.clusterNetwork || undefined,
    defaultNetworks: written.defaultNetworks ?? [],
    defaultNetworksAreOptional: written.defaultNetworksAreOptional ?? false,
    requireDevices: written.requireDevices ?? false,
    systemNamespaces: written.systemNamespaces ?? ["kube-system"],
    multusNamespace: written.multusNamespace || "kube-system",
    kubeconfig: written.kubeconfig && nodePath(written.kubeconfig),
    apiTimeoutMs: written.apiTimeoutSeconds && written.apiTimeoutSeconds * 1000,
    namespaceIsolation: written.namespaceIsolation ?? false,
    nonIsolatedNamespaces: globalNamespaces === ""
      ? ["default"]
      : globalNamespaces.split(",").map((name) => name.trim()),
    definitionTypes: written.definitionTypes ?? ["*"],
    definitionKeys: written.definitionKeys ?? [],
    trustedNamespaces: written.trustedNamespaces ?? [],
    podRequests: written.podRequests ?? "offered",
    podArgs: written.podArgs ?? [],
    podRoutes: written.podRoutes ?? [],
    readinessIndicatorFile: written.readinessindicatorfile,
    confDir: findConfDir(written),
    cniDir: written.cniDir ?? MULTUS_CACHE_DIR,
    binDir: nodePath(written.binDir ?? "/opt/cni/bin"),
    logFile: written.logFile,
    logLevel: logLevel.toLowerCase() || "error",
    logToStderr: written.logToStderr ?? true,
    logOptions: completeLogOptions(written.logOptions),
    runtimeConfig: (written.runtimeConfig ?? {}) as JsonObject,
    auxiliaryChainName: written.auxiliaryCNIChainName || undefined,
  });
}

/** Where multus searches for networks by default. */
export const MULTUS_CONF_DIR = "/etc/cni/multus/net.d";

/**
 * Finds the directory. The reference's installer writes it under `cniConf`, a key
 * that the reference does not read.
 */
function findConfDir({ confDir, cniConf }: Written): string {
  return nodePath(confDir ?? cniConf ?? MULTUS_CONF_DIR);
}

function completeLogOptions(
  { maxAge = 5, maxSize = 100, maxBackups = 5, compress = true }: NonNullable<
    Written["logOptions"]
  > = {},
): LogOptions {
  return {
    maxAgeDays: maxAge,
    maxSizeMegabytes: maxSize,
    maxBackups,
    compress,
  };
}

/**
 * Translates a container's path to the node's path. The Go version's thick daemon and
 * its installer write container paths into the configuration, such as
 * /host/etc/cni/net.d/10-pods.conflist.
 *
 * @returns The path without /host, unless it exists on the node as written
 */
export function nodePath(
  path: string,
  isThere: (path: string) => boolean = exists,
): string {
  if (!path.startsWith("/host/") || isThere(path)) return path;
  return path.slice("/host".length);
}
