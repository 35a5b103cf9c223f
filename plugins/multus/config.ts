/**
 * The configuration of multus.
 *
 * A DEL has to work with a configuration that is broken: what cannot be read of
 * it is left out, and what is missing shows when it is asked for.
 *
 * Source: multus-cni pkg/types/conf.go `LoadNetConf`, pkg/types/types.go `NetConf`.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import * as z from "zod/mini";
import { ifPossible } from "../../cni/io_failure.ts";
import { type JsonObject, omitAbsent, type Schema } from "../../cni/json.ts";
import { type NetConf, once, optional } from "../../cni/types.ts";

/** How log files are rotated. */
export interface LogOptions {
  /** Days after which a rotated file is removed. */
  readonly maxAgeDays: number;
  /** Megabytes (2^20) at which the file is rotated. */
  readonly maxSizeMegabytes: number;
  /** How many rotated files are kept. */
  readonly maxBackups: number;
  /** Rotated files are gzipped. */
  readonly compress: boolean;
}

/** The decoded configuration; paths are absolute and clean. */
export interface MultusConfig extends NetConf {
  /** Networks of every pod, as written; unused if there is a clusterNetwork. Not checked. */
  readonly delegates: readonly JsonObject[];
  /** The master network, in one of four forms; undefined if `delegates` has it. */
  readonly clusterNetwork?: string;
  /** Further networks of every pod outside the system namespaces, in the same forms. */
  readonly defaultNetworks: readonly string[];
  /** Namespaces whose pods have no {@linkcode defaultNetworks}. */
  readonly systemNamespaces: readonly string[];
  /** Namespace of the NetworkAttachmentDefinitions that the configuration names. */
  readonly multusNamespace: string;
  /** Path of the kubeconfig; undefined: in-cluster credentials, or no API at all. */
  readonly kubeconfig?: string;
  /** Pods may use networks of their own namespace only. */
  readonly namespaceIsolation: boolean;
  /** Namespaces that pods may use in spite of that: `globalNamespaces`. */
  readonly nonIsolatedNamespaces: readonly string[];
  /** File that is there when the master network is ready: `readinessindicatorfile`. */
  readonly readinessIndicatorFile?: string;
  /** Folder with configurations that networks without one are looked for in. */
  readonly confDir: string;
  /** Folder of the scratch files and of libcni's cache. */
  readonly cniDir: string;
  /** Folder with plugins, searched before those of CNI_PATH. */
  readonly binDir: string;
  /** Log file; undefined for none. */
  readonly logFile?: string;
  /** In lower case; of a level that is none the log has to tell. */
  readonly logLevel: string;
  /** Logs to stderr too. */
  readonly logToStderr: boolean;
  /** How log files are rotated. */
  readonly logOptions: LogOptions;
  /**
   * What the runtime offers, by capability, as written; the names that
   * multus knows ({@linkcode KNOWN_CAPABILITIES}) in their own spelling.
   */
  readonly runtimeConfig: JsonObject;
  /** Name of the last network, of files beside clusterNetwork: `auxiliaryCNIChainName`. */
  readonly auxiliaryChainName?: string;
  /** Folder of the daemon's socket. */
  readonly daemonSocketDir: string;
}

/** Keys of runtimeConfig that every delegate may get; others are for the master only. */
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
export const bandwidthSchema = once(() => {
  const bits = optional(z.int());
  return z.looseObject({
    ingressRate: bits,
    ingressBurst: bits,
    egressRate: bits,
    egressBurst: bits,
  });
});

/** Reads a path; the empty text is none. */
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
    bandwidth: optional(bandwidthSchema()),
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
    systemNamespaces: texts,
    multusNamespace: text,
    kubeconfig: path,
    namespaceIsolation: flag,
    globalNamespaces: text,
    readinessindicatorfile: path,
    confDir: path,
    cniConf: path,
    cniDir: path,
    binDir: path,
    logFile: path,
    logLevel: text,
    logToStderr: flag,
    logOptions: optional(logOptionsSchema()),
    // Read by runtimes.
    capabilities: optional(z.record(z.string(), z.nullable(z.boolean()))),
    runtimeConfig: optional(runtimeConfigSchema()),
    auxiliaryCNIChainName: text,
    // Of no effect: what was not detached is always remembered.
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
    // They came out of a JSON document.
    delegates: (written.delegates ?? []) as JsonObject[],
    clusterNetwork: written.clusterNetwork || undefined,
    defaultNetworks: written.defaultNetworks ?? [],
    systemNamespaces: written.systemNamespaces ?? ["kube-system"],
    multusNamespace: written.multusNamespace || "kube-system",
    kubeconfig: written.kubeconfig && nodePath(written.kubeconfig),
    namespaceIsolation: written.namespaceIsolation ?? false,
    nonIsolatedNamespaces: globalNamespaces === ""
      ? ["default"]
      : globalNamespaces.split(",").map((name) => name.trim()),
    readinessIndicatorFile: written.readinessindicatorfile,
    confDir: findConfDir(written),
    cniDir: written.cniDir ?? "/var/lib/cni/multus",
    binDir: nodePath(written.binDir ?? "/opt/cni/bin"),
    logFile: written.logFile,
    logLevel: logLevel.toLowerCase() || "error",
    logToStderr: written.logToStderr ?? true,
    logOptions: completeLogOptions(written.logOptions),
    runtimeConfig: (written.runtimeConfig ?? {}) as JsonObject,
    auxiliaryChainName: written.auxiliaryCNIChainName || undefined,
    daemonSocketDir: written.daemonSocketDir ?? "/run/multus",
  });
}

/**
 * Finds the folder, also where the reference's installer writes it: under a key
 * that the reference does not read.
 */
function findConfDir({ confDir, cniConf }: Written): string {
  return nodePath(confDir ?? cniConf ?? "/etc/cni/multus/net.d");
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
 * Returns a path as the node has it. The Go version's thick daemon and its
 * installer write the paths of their containers into the configuration, such as
 * /host/etc/cni/net.d/10-pods.conflist.
 *
 * @returns The path without /host, unless the node has it as it is written
 */
export function nodePath(
  path: string,
  isThere: (path: string) => boolean = exists,
): string {
  if (!path.startsWith("/host/") || isThere(path)) return path;
  return path.slice("/host".length);
}

function exists(path: string): boolean {
  return ifPossible(() => Deno.statSync(path)) !== undefined;
}
