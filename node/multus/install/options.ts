/**
 * What `multus install` is told, by its flags.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import type { Environment } from "../../../cni/args.ts";
import { parseFlags, refuse } from "../flags.ts";
import {
  findLogLevel,
  LOG_LEVELS,
  type LogLevel,
} from "../../../plugins/multus/log/operation_log.ts";
import { INSTALL_FLAGS, type InstallFlags } from "./install_flags.ts";

/** What errors call the command. */
export const COMMAND = "multus install";

/** Where a container that installs sees the node's folders. */
export const HOST_ROOT = "/host";

/** What is installed of the executable. */
export interface ExecutableOptions {
  readonly source: string;
  /** The node's folder of plugins. */
  readonly folder: string;
  /** Other names for it. */
  readonly links: readonly string[];
  /** Links replace files of the same name that are not ours. */
  readonly replacesOthers: boolean;
}

/** How multus shall find the API server and show who it is. */
export interface CredentialOptions {
  /** Folder of the service account. */
  readonly serviceAccount: string;
  /** Folder that the files are written to. */
  readonly folder: string;
  /** What the node calls the kubeconfig. */
  readonly hostPath: string;
  readonly skipTlsVerify: boolean;
  readonly env: Environment;
  /** Without service account there are no credentials, and that is no failure. */
  readonly isOptional: boolean;
}

/** How the configuration is made of the master network's. */
export interface ConfigurationOptions {
  /** The node's folder of configurations. */
  readonly folder: string;
  /** Folder where the master network's is. */
  readonly masterFolder: string;
  /** Its name there; undefined for the first. */
  readonly masterFile?: string;
  readonly renamesMaster: boolean;
  /** The version that the master network must have, or is given. */
  readonly cniVersion: string;
  readonly forcesVersion: boolean;
  /** The network is called what the master network is called. */
  readonly takesName: boolean;
  /** Keys of the configuration that flags set, in the order in which they are written. */
  readonly keys: Readonly<Record<string, string | boolean>>;
  /** As the node sees it; "" for none. */
  readonly readinessFile: string;
  readonly readinessTimeoutMs: number;
}

/** A configuration that somebody has written. */
export interface GivenConfigurationOptions {
  readonly source: string;
  /** The node's folder of configurations. */
  readonly folder: string;
}

/** All that `multus install` does. */
export interface InstallOptions {
  /** Undefined: none is installed. */
  readonly executable?: ExecutableOptions;
  readonly credentials: CredentialOptions;
  /** Undefined: configurations are left alone. */
  readonly configuration?: ConfigurationOptions | GivenConfigurationOptions;
  /** Goes on when all is done. */
  readonly isWatching: boolean;
  /** The configuration is not followed. */
  readonly skipsConfigWatch: boolean;
  /** Our configurations are removed in the end. */
  readonly cleansUp: boolean;
  /** How long it may take without watching, in ms. */
  readonly timeoutMs: number;
}

/** What the executable can be installed as. */
export interface Names {
  readonly pluginNames: readonly string[];
  readonly knownNames: readonly string[];
}

/**
 * Reads the command line.
 *
 * @returns Undefined if help is asked for
 * @throws {CniError} 4 if it cannot be followed
 */
export function readInstallOptions(
  args: readonly string[],
  env: Environment,
  names: Names,
): InstallOptions | undefined {
  const flags = parseFlags(COMMAND, INSTALL_FLAGS, args);
  if (flags.help) return undefined;
  const configuration = readConfiguration(flags);
  return {
    ...flags["skip-multus-binary-copy"]
      ? {}
      : { executable: readExecutable(flags, names) },
    credentials: {
      serviceAccount: flags["service-account-dir"],
      folder: join(flags["cni-conf-dir"], "multus.d"),
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
    timeoutMs: parseTime("timeout", flags.timeout),
  };
}

function readExecutable(flags: InstallFlags, names: Names): ExecutableOptions {
  const { plugins } = flags;
  return {
    source: flags["multus-bin-file"],
    folder: flags["cni-bin-dir"],
    links: listLinks(plugins, names),
    // Only who names a plugin wants it in place of another one.
    replacesOthers: !["", "all"].includes(plugins),
  };
}

function listLinks(
  plugins: string,
  { pluginNames, knownNames }: Names,
): string[] {
  if (plugins === "none") return [];
  if (plugins === "") return ["passthru"];
  const names = plugins === "all" ? pluginNames : plugins.split(",");
  for (const name of names) {
    if (knownNames.includes(name)) continue;
    const known = knownNames.join(", ");
    throw refuse(
      COMMAND,
      `--plugins: "${name}" is none of all, none, ${known}`,
    );
  }
  return names.filter((name) => name !== "multus");
}

function readConfiguration(
  flags: InstallFlags,
): InstallOptions["configuration"] {
  const [source, folder] = [flags["multus-conf-file"], flags["cni-conf-dir"]];
  if (source === "none") return undefined;
  if (source !== "auto") return { source, folder };
  const { "multus-master-cni-file-name": masterFile } = flags;
  const timeout = flags["readiness-timeout"];
  if (flags["force-cni-version"] && flags["cni-version"] === "") {
    throw refuse(COMMAND, "--force-cni-version needs --cni-version");
  }
  return {
    folder,
    masterFolder: flags["multus-autoconfig-dir"],
    ...masterFile === "" ? {} : { masterFile: basename(masterFile) },
    renamesMaster: flags["rename-conf-file"],
    cniVersion: flags["cni-version"],
    forcesVersion: flags["force-cni-version"],
    takesName: flags["override-network-name"],
    keys: readKeys(flags),
    readinessFile: flags["readiness-indicator-file"],
    readinessTimeoutMs: parseTime("readiness-timeout", timeout),
  };
}

/** Source: multus-cni cmd/thin_entrypoint/main.go `multusConfTemplate`, for the order. */
function readKeys(flags: InstallFlags): Record<string, string | boolean> {
  const confDir = flags["multus-cni-conf-dir"];
  const isDefault = confDir === INSTALL_FLAGS["multus-cni-conf-dir"].default;
  const keys = {
    namespaceIsolation: flags["namespace-isolation"],
    globalNamespaces: flags["global-namespaces"],
    logToStderr: flags["multus-log-to-stderr"] ? "" : false,
    logLevel: readLogLevel(flags["multus-log-level"]),
    logFile: flags["multus-log-file"],
    binDir: flags["additional-bin-dir"],
    // The reference writes "cniConf", which multus does not read, and the
    // folder as its container sees it.
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

function readLogLevel(text: string): LogLevel | "" {
  const level = text === "" ? "" : findLogLevel(text);
  if (level !== undefined) return level;
  const known = LOG_LEVELS.join(", ");
  throw refuse(COMMAND, `--multus-log-level: "${text}" is none of ${known}`);
}

/** Turns a path below {@linkcode HOST_ROOT} into what the node calls it. */
export function toHostPath(path: string): string {
  return path.startsWith(`${HOST_ROOT}/`) ? path.slice(HOST_ROOT.length) : path;
}

/** Returns what the node calls the copy of the token: it is beside the kubeconfig. */
export function hostPathOfToken({ hostPath }: CredentialOptions): string {
  return join(dirname(hostPath), "token");
}

/** Milliseconds of each unit; without one it is seconds. */
const UNITS: Readonly<Record<string, number>> = {
  "": 1000,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Timers count milliseconds in 31 bits. */
const LONGEST_MS = 2 ** 31 - 1;

function parseTime(flag: string, text: string): number {
  const [, amount, unit = ""] = /^(\d+)(ms|s|m|h)?$/.exec(text) ?? [];
  if (amount !== undefined) {
    return Math.min(Number(amount) * (UNITS[unit] ?? 0), LONGEST_MS);
  }
  throw refuse(
    COMMAND,
    `--${flag}: "${text}" is no time such as 500ms, 45s, 2m`,
  );
}
