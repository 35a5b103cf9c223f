/**
 * The flags of `multus install`: the same as the reference's entry point has,
 * and a few more.
 *
 * Source: multus-cni cmd/thin_entrypoint/main.go `addFlags`.
 *
 * @module
 */

import { LOG_LEVELS } from "../log/operation_log.ts";
import type {
  FlagTable,
  FlagValues,
} from "../../../base/command_line/command.ts";

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

/** A flag whose value may be empty. */
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
    "refuse a master network with another cniVersion",
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
    completes: LOG_LEVELS,
  },
  "multus-log-file": text("FILE", "set logFile"),
  "additional-bin-dir": text("DIRECTORY", "set binDir"),
  "daemon-socket-dir": text(
    "DIRECTORY",
    "set daemonSocketDir: the daemon's --socket-dir on the node",
  ),
  "multus-cni-conf-dir": directory(
    "/host/etc/cni/multus/net.d",
    "set confDir, if it is another directory",
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
    summary: "with --watch, remove 00-multus.conf and 00-multus.conflist at " +
      "the end; new pods then get only the master network",
  },
} as const satisfies FlagTable;

/** The flags' values. */
export type InstallFlags = FlagValues<typeof INSTALL_FLAGS>;
