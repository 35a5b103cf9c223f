/**
 * The options of `multus install`, from its flags.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import type { Environment } from "../../../base/process/environment.ts";
import {
  type CommandCall,
  readTimeLimit,
} from "../../../base/command_line/command.ts";
import { refuse } from "../../../base/command_line/usage_error.ts";
import { INSTALL_FLAGS, type InstallFlags } from "./install_flags.ts";

/** A call of `multus install`. */
export type InstallCall = Pick<
  CommandCall<InstallFlags>,
  "command" | "flags" | "env"
>;

/** Where an installing container mounts the node's directories. */
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
   * The version that the master network must have, or that replaces its own.
   */
  readonly cniVersion: string;
  readonly forcesVersion: boolean;
  /** Whether the network takes the master network's name. */
  readonly takesName: boolean;
  /** Keys of the configuration set by flags, in the order of writing. */
  readonly keys: MultusKeys;
  /** Path on the node; "" for none. */
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
  /** Whether our configurations are removed at the end. */
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
    // Only a plugin that was named explicitly replaces a foreign one.
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

/** Source: multus-cni cmd/thin_entrypoint/main.go `multusConfTemplate`, for the order. */
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

/** Returns the path of the token's copy on the node, beside the kubeconfig. */
export function hostPathOfToken({ hostPath }: CredentialOptions): string {
  return join(dirname(hostPath), "token");
}
