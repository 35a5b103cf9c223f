/**
 * The flags of `multus install`, and the resulting options. The flags contain all
 * flags of the reference's entry point, and a few more.
 *
 * Source: multus-cni cmd/thin_entrypoint/main.go `addFlags`.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import type { Environment } from "../../../base/process/environment.ts";
import {
  type CommandCall,
  type FlagTable,
  type FlagValues,
  readTimeLimit,
} from "../../../base/command_line/command.ts";
import { refuse } from "../../../base/command_line/usage_error.ts";
import { MULTUS_LOG_LEVELS } from "../operations/operation_log.ts";

interface TextFlag {
  readonly value: string;
  readonly default: string;
  readonly summary: string;
}

function directory(fallback: string, summary: string): TextFlag {
  return { value: "DIRECTORY", default: fallback, summary };
}

function file(fallback: string, summary: string): TextFlag {
  return { value: "FILE", default: fallback, summary };
}

function time(fallback: string, summary: string): TextFlag {
  return { value: "TIME", default: fallback, summary };
}

/** Declares a flag whose value can be empty. */
function text(value: string, summary: string): TextFlag {
  return { value, default: "", summary };
}

/** The flags, in the order of the help text. */
export const INSTALL_FLAGS = {
  "watch": {
    summary: "keep running: renew credentials, follow the master network, " +
      "and restore what other programs remove",
  },
  "cni-bin-dir": directory("/host/opt/cni/bin", "the node's plugin directory"),
  "multus-bin-file": file("/proc/self/exe", "executable to install"),
  "plugins": text(
    "NAMES",
    "other plugins to install as links: comma-separated names, which replace " +
      "existing files; all, which replaces nothing; or none (default passthru)",
  ),
  "skip-multus-binary-copy": { summary: "install no executable and no links" },
  "cni-conf-dir": directory(
    "/host/etc/cni/net.d",
    "the node's configuration directory",
  ),
  "multus-conf-file": file(
    "auto",
    "configuration to install; auto generates it from the master network, " +
      "none writes none",
  ),
  "multus-autoconfig-dir": directory(
    "/host/etc/cni/net.d",
    "directory to search for the master network",
  ),
  "multus-master-cni-file-name": text(
    "NAME",
    "the master network's file in that directory (default the first)",
  ),
  "multus-kubeconfig-file-host": file(
    "/etc/cni/net.d/multus.d/multus.kubeconfig",
    "path of the kubeconfig on the node",
  ),
  "service-account-dir": directory(
    "/var/run/secrets/kubernetes.io/serviceaccount",
    "directory with the service account's credentials",
  ),
  "skip-tls-verify": {
    summary: "skip verification of the API server; for tests only",
  },
  "cni-version": text(
    "VERSION",
    "refuse a master network with a different cniVersion",
  ),
  "force-cni-version": {
    summary: "change the master network's cniVersion to --cni-version",
  },
  "override-network-name": {
    summary: "use the master network's name instead of multus-cni-network",
  },
  "namespace-isolation": { summary: "set namespaceIsolation" },
  "global-namespaces": text(
    "NAMES",
    "set globalNamespaces to comma-separated names",
  ),
  "definition-types": text(
    "TYPES",
    "set definitionTypes to comma-separated types of plugins",
  ),
  "definition-keys": text(
    "KEYS",
    "set definitionKeys to comma-separated keys, such as host-local.dataDir",
  ),
  "trusted-namespaces": text(
    "NAMES",
    "set trustedNamespaces to comma-separated names",
  ),
  "pod-requests": {
    ...text("WHAT", "set podRequests: offered or any"),
    completes: ["offered", "any"],
  },
  "pod-args": text(
    "KEYS",
    "set podArgs to comma-separated keys of cni-args, such as mtu",
  ),
  "pod-routes": text(
    "CIDRS",
    "set podRoutes to comma-separated destinations, such as 10.50.0.0/16",
  ),
  "multus-log-to-stderr": {
    default: true,
    summary: "if false, set logToStderr to false",
  },
  "multus-log-level": {
    ...text("LEVEL", "set logLevel: debug, verbose, error or panic"),
    completes: MULTUS_LOG_LEVELS,
  },
  "multus-log-file": text("FILE", "set logFile"),
  "additional-bin-dir": text("DIRECTORY", "set binDir"),
  "daemon-socket-dir": text(
    "DIRECTORY",
    "set daemonSocketDir: the daemon's --socket-dir on the node",
  ),
  "multus-cni-conf-dir": directory(
    "/host/etc/cni/multus/net.d",
    "set confDir, if it differs from this directory",
  ),
  "readiness-indicator-file": text(
    "FILE",
    "set readinessindicatorfile, and wait for the file before writing the " +
      "first configuration",
  ),
  "readiness-timeout": time("45s", "time limit of that wait; 0 for no wait"),
  "timeout": time(
    "2m",
    "how long to wait for the master network without --watch",
  ),
  "rename-conf-file": {
    summary: "rename the master network's file to *.old",
  },
  "skip-config-watch": {
    summary: "with --watch, write the configuration only once",
  },
  "cleanup-config-on-exit": {
    summary: "with --watch, remove 00-multus.conf and 00-multus.conflist on " +
      "exit; new pods then get only the master network",
  },
} as const satisfies FlagTable;

/** The flags' values. */
export type InstallFlags = FlagValues<typeof INSTALL_FLAGS>;

/** A call of `multus install`. */
export type InstallCall = Pick<
  CommandCall<InstallFlags>,
  "command" | "flags" | "env"
>;

/** The directory in which an installing container mounts the node's directories. */
export const HOST_ROOT = "/host";

/** Options of the executable's installation. */
export interface ExecutableOptions {
  readonly source: string;
  /** The node's directory of plugins. */
  readonly directory: string;
  /** Additional names of the executable. */
  readonly links: readonly string[];
  /** Whether links replace foreign files of the same name. */
  readonly replacesOthers: boolean;
}

/** Options of the credentials for the API server. */
export interface CredentialOptions {
  /** Directory of the pod's service account. */
  readonly serviceAccount: string;
  /** Directory to write the files to. */
  readonly directory: string;
  /** The kubeconfig's path on the node. */
  readonly hostPath: string;
  readonly skipTlsVerify: boolean;
  readonly env: Environment;
  /** Without a service account, skips the credentials instead of failing. */
  readonly isOptional: boolean;
}

/** Keys of the written configuration. */
export type MultusKeys = Readonly<
  Record<string, string | boolean | readonly string[]>
>;

/** Options of a configuration generated from the master network's. */
export interface ConfigurationOptions {
  /** The node's directory of configurations. */
  readonly directory: string;
  /** Directory of the master network's configuration. */
  readonly masterDirectory: string;
  /** Its file name; undefined for the first file. */
  readonly masterFile?: string;
  readonly renamesMaster: boolean;
  /**
   * The version that the master network must have, or that replaces its version.
   */
  readonly cniVersion: string;
  readonly forcesVersion: boolean;
  /** Whether the network takes the master network's name. */
  readonly takesName: boolean;
  /** Keys of the configuration that flags set, in the order of writing. */
  readonly keys: MultusKeys;
  /** Path of the readiness file on the node; "" for none. */
  readonly readinessFile: string;
  readonly readinessTimeoutMs: number;
}

/** A configuration that the user provides. */
export interface GivenConfigurationOptions {
  readonly source: string;
  /** The node's directory of configurations. */
  readonly directory: string;
}

/** The actions of `multus install`. */
export interface InstallOptions {
  /** If undefined, no executable is installed. */
  readonly executable?: ExecutableOptions;
  readonly credentials: CredentialOptions;
  /** If undefined, configurations stay unchanged. */
  readonly configuration?: ConfigurationOptions | GivenConfigurationOptions;
  /** Whether it keeps running and restores the files. */
  readonly isWatching: boolean;
  /** Whether changes of configurations are ignored. */
  readonly skipsConfigWatch: boolean;
  /** Whether our configurations are removed on exit. */
  readonly cleansUp: boolean;
  /** Time limit without watching, in ms. */
  readonly timeoutMs: number;
}

/** The names under which the executable can be installed. */
export interface Names {
  readonly pluginNames: readonly string[];
  readonly knownNames: readonly string[];
}

/**
 * Reads the flags.
 *
 * @throws {UsageError} If they are invalid
 */
export function readInstallOptions(
  call: InstallCall,
  names: Names,
): InstallOptions {
  const { flags, env } = call;
  const configuration = readConfiguration(call);
  return {
    ...flags["skip-multus-binary-copy"]
      ? {}
      : { executable: readExecutable(call, names) },
    credentials: {
      serviceAccount: flags["service-account-dir"],
      directory: join(flags["cni-conf-dir"], "multus.d"),
      hostPath: flags["multus-kubeconfig-file-host"],
      skipTlsVerify: flags["skip-tls-verify"],
      env,
      isOptional: flags["multus-conf-file"] !== "auto",
    },
    ...configuration === undefined ? {} : { configuration },
    isWatching: flags.watch,
    skipsConfigWatch: flags["skip-config-watch"],
    cleansUp: flags["cleanup-config-on-exit"] &&
      flags["multus-conf-file"] === "auto",
    timeoutMs: readTimeLimit(call, "timeout"),
  };
}

function readExecutable(call: InstallCall, names: Names): ExecutableOptions {
  const { flags } = call;
  const { plugins } = flags;
  return {
    source: flags["multus-bin-file"],
    directory: flags["cni-bin-dir"],
    links: listLinks(call, names),
    // Only explicitly named plugins replace foreign plugins.
    replacesOthers: !["", "all"].includes(plugins),
  };
}

function listLinks(
  { command, flags: { plugins } }: InstallCall,
  { pluginNames, knownNames }: Names,
): string[] {
  if (plugins === "none") return [];
  if (plugins === "") return ["passthru"];
  const names = plugins === "all" ? pluginNames : plugins.split(",");
  for (const name of names) {
    if (knownNames.includes(name)) continue;
    const known = ["all", "none", ...knownNames].join(", ");
    throw refuse(command, `--plugins must be of ${known}, not "${name}"`);
  }
  return names.filter((name) => name !== "multus");
}

function readConfiguration(
  call: InstallCall,
): InstallOptions["configuration"] {
  const { command, flags } = call;
  const [source, directory] = [
    flags["multus-conf-file"],
    flags["cni-conf-dir"],
  ];
  if (source === "none") return undefined;
  if (source !== "auto") return { source, directory };
  const { "multus-master-cni-file-name": masterFile } = flags;
  if (flags["force-cni-version"] && flags["cni-version"] === "") {
    throw refuse(command, "--force-cni-version needs --cni-version");
  }
  return {
    directory,
    masterDirectory: flags["multus-autoconfig-dir"],
    ...masterFile === "" ? {} : { masterFile: basename(masterFile) },
    renamesMaster: flags["rename-conf-file"],
    cniVersion: flags["cni-version"],
    forcesVersion: flags["force-cni-version"],
    takesName: flags["override-network-name"],
    keys: readKeys(flags),
    readinessFile: flags["readiness-indicator-file"],
    readinessTimeoutMs: readTimeLimit(call, "readiness-timeout"),
  };
}

/**
 * Reads the configuration's keys from flags, in the order of writing.
 *
 * Source: multus-cni cmd/thin_entrypoint/main.go `multusConfTemplate`.
 */
function readKeys(flags: InstallFlags): MultusKeys {
  const confDir = flags["multus-cni-conf-dir"];
  const isDefault = confDir === INSTALL_FLAGS["multus-cni-conf-dir"].default;
  const keys = {
    namespaceIsolation: flags["namespace-isolation"],
    globalNamespaces: flags["global-namespaces"],
    definitionTypes: splitNames(flags["definition-types"]),
    definitionKeys: splitNames(flags["definition-keys"]),
    trustedNamespaces: splitNames(flags["trusted-namespaces"]),
    podRequests: flags["pod-requests"],
    podArgs: splitNames(flags["pod-args"]),
    podRoutes: splitNames(flags["pod-routes"]),
    logToStderr: flags["multus-log-to-stderr"] ? "" : false,
    logLevel: flags["multus-log-level"],
    logFile: flags["multus-log-file"],
    binDir: flags["additional-bin-dir"],
    daemonSocketDir: flags["daemon-socket-dir"],
    // The reference writes "cniConf", which multus does not read, and the
    // directory's path in its container.
    confDir: isDefault ? "" : toHostPath(confDir),
    readinessindicatorfile: flags["readiness-indicator-file"],
    kubeconfig: flags["multus-kubeconfig-file-host"],
  };
  const { namespaceIsolation, ...others } = keys;
  const set = Object.entries(others).filter(([, value]) => value !== "");
  return {
    ...namespaceIsolation ? { namespaceIsolation } : {},
    ...Object.fromEntries(set),
  };
}

/** Comma-separated names; "" for none. */
function splitNames(text: string): string[] | "" {
  return text === "" ? "" : text.split(",").map((name) => name.trim());
}

/** Converts a path below {@linkcode HOST_ROOT} to the path on the node. */
export function toHostPath(path: string): string {
  return path.startsWith(`${HOST_ROOT}/`) ? path.slice(HOST_ROOT.length) : path;
}

/** Returns the path of the token's copy on the node, next to the kubeconfig. */
export function hostPathOfToken({ hostPath }: CredentialOptions): string {
  return join(dirname(hostPath), "token");
}
