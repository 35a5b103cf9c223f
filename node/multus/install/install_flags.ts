/**
 * The flags of `multus install`: the same as the reference's entry point has,
 * and a few more.
 *
 * Source: multus-cni cmd/thin_entrypoint/main.go `addFlags`.
 *
 * @module
 */

import type { FlagValues } from "../flags.ts";

/** The flags, in the order of the help text. */
export const INSTALL_FLAGS = {
  "watch": {
    default: false,
    summary: "goes on: renews credentials, follows the master network, puts " +
      "back what others remove, until SIGTERM",
  },
  "cni-bin-dir": {
    default: "/host/opt/cni/bin",
    value: "FOLDER",
    summary: "where the node has its plugins",
  },
  "multus-bin-file": {
    default: "/proc/self/exe",
    value: "FILE",
    summary: "the executable to install: this one",
  },
  "plugins": {
    default: "",
    value: "NAMES",
    summary:
      "the other plugins to install, as links: names joined by commas, " +
      "which replace files of those names; all, which replaces nothing; none; " +
      "passthru if it is not given",
  },
  "skip-multus-binary-copy": {
    default: false,
    summary: "installs no executable",
  },
  "cni-conf-dir": {
    default: "/host/etc/cni/net.d",
    value: "FOLDER",
    summary: "where the node has its network configurations",
  },
  "multus-conf-file": {
    default: "auto",
    value: "FILE",
    summary: "auto: makes a configuration of the master network's; none: " +
      "leaves configurations alone; or the configuration to install",
  },
  "multus-autoconfig-dir": {
    default: "/host/etc/cni/net.d",
    value: "FOLDER",
    summary: "where the master network's configuration is looked for",
  },
  "multus-master-cni-file-name": {
    default: "",
    value: "NAME",
    summary:
      "the file there that is the master network's, instead of the first",
  },
  "multus-kubeconfig-file-host": {
    default: "/etc/cni/net.d/multus.d/multus.kubeconfig",
    value: "FILE",
    summary: "what the node calls multus.d/multus.kubeconfig of --cni-conf-dir",
  },
  "service-account-dir": {
    default: "/var/run/secrets/kubernetes.io/serviceaccount",
    value: "FOLDER",
    summary: "where the credentials of the service account are",
  },
  "skip-tls-verify": {
    default: false,
    summary: "has multus not verify the API server: for tests",
  },
  "cni-version": {
    default: "",
    value: "VERSION",
    summary: "refuses a master network of another cniVersion",
  },
  "force-cni-version": {
    default: false,
    summary: "gives the master network the version of --cni-version",
  },
  "override-network-name": {
    default: false,
    summary: "takes the master network's name instead of multus-cni-network",
  },
  "namespace-isolation": {
    default: false,
    summary: "writes namespaceIsolation",
  },
  "global-namespaces": {
    default: "",
    value: "NAMES",
    summary: "writes globalNamespaces: joined by commas",
  },
  "multus-log-to-stderr": {
    default: true,
    summary: "writes logToStderr if it is false",
  },
  "multus-log-level": {
    default: "",
    value: "LEVEL",
    summary: "writes logLevel: debug, verbose, error or panic",
  },
  "multus-log-file": {
    default: "",
    value: "FILE",
    summary: "writes logFile",
  },
  "additional-bin-dir": {
    default: "",
    value: "FOLDER",
    summary: "writes binDir",
  },
  "multus-cni-conf-dir": {
    default: "/host/etc/cni/multus/net.d",
    value: "FOLDER",
    summary: "writes confDir if it is another folder",
  },
  "readiness-indicator-file": {
    default: "",
    value: "FILE",
    summary: "writes readinessindicatorfile, and waits for it before the " +
      "first configuration",
  },
  "readiness-timeout": {
    default: "45s",
    value: "TIME",
    summary: "how long it waits for that at most; 0 is not at all",
  },
  "timeout": {
    default: "2m",
    value: "TIME",
    summary: "without --watch, how long it waits for the master network",
  },
  "rename-conf-file": {
    default: false,
    summary: "renames the master network's file to *.old",
  },
  "skip-config-watch": {
    default: false,
    summary: "with --watch, makes the configuration once and leaves it alone",
  },
  "cleanup-config-on-exit": {
    default: false,
    summary: "with --watch, removes 00-multus.conf and 00-multus.conflist in " +
      "the end: new pods then get the master network alone",
  },
  "help": { default: false, summary: "tells about the command" },
} as const;

/** The flags' values. */
export type InstallFlags = FlagValues<typeof INSTALL_FLAGS>;
