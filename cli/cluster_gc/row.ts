/**
 * The command `cni cluster-gc`, also `multus cluster-gc`, without its
 * implementation.
 *
 * @module
 */

import type { CommandRow } from "../program/command.ts";
import { CLUSTER_GC_FLAGS } from "./flags.ts";

/** Describes the command of a program. */
export function describeClusterGc(program: string): CommandRow {
  return {
    name: "cluster-gc",
    summary: "Release addresses of pods that are gone, in the whole cluster",
    about: [
      "Compares the pools of whereabouts with the pods. Prints the addresses of " +
      "pods that are gone or have ended; with --yes, releases them. Keeps the " +
      "addresses of all other pods, also while their containers are created. " +
      "Before it releases, it waits for --grace and looks again. " +
      "Runs in a pod, on a node with whereabouts' flat file, or anywhere with a " +
      "kubeconfig: --kubeconfig, KUBECONFIG or ~/.kube/config.",
    ],
    flags: CLUSTER_GC_FLAGS,
    timeout: "5m",
    examples: {
      [`${program} cluster-gc`]: "show which addresses would be released",
      [`${program} cluster-gc --yes`]: "release them",
      [`${program} cluster-gc --json | jq '.pools[]'`]:
        "show how full the pools are",
    },
    load: async () => (await import("./command.ts")).clusterGc,
  };
}
