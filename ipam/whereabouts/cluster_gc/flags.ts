/**
 * The flags of whereabouts' commands.
 *
 * @module
 */

import { type FlagTable, LISTING } from "../../../base/command_line/command.ts";

/** Where the addresses are kept. */
const CLUSTER = {
  "kubeconfig": {
    value: "FILE",
    summary: "kubeconfig; overrides KUBECONFIG",
    completes: "file",
  },
  "namespace": {
    value: "NAME",
    summary:
      "namespace of the pools (default the kubeconfig's, or kube-system)",
  },
} as const satisfies FlagTable;

/** The flags of `cni release`. */
export const RELEASE_FLAGS = {
  "yes": { summary: "do not prompt" },
  ...CLUSTER,
} as const satisfies FlagTable;

/** The flags of `cni cluster-gc`. */
export const CLUSTER_GC_FLAGS = {
  "yes": { summary: "release these addresses" },
  "grace": {
    value: "DURATION",
    default: "1m",
    summary: "with --yes: wait, and check again; not part of --timeout",
  },
  "dry-run": { summary: "show what would be released (default)" },
  "wide": LISTING.wide,
  "output": LISTING.output,
  ...CLUSTER,
  "exit-code": { summary: "exit with 1 if there is something to release" },
} as const satisfies FlagTable;
