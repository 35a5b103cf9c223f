/**
 * The command line of whereabouts: `cni cluster-gc`, also `multus cluster-gc`, and
 * `cni release`. Their code is loaded when they are called.
 *
 * @module
 */

import type { CommandRow } from "../../base/command_line/command.ts";
import { CLUSTER_GC_FLAGS, RELEASE_FLAGS } from "./cluster_gc/flags.ts";

/** The command `cni release`. */
export const RELEASE: CommandRow = {
  name: "release",
  summary: "Release the addresses of an IPAMClaim, for an administrator",
  about: [
    "The claim's next pod gets different addresses. Prompts before it releases, " +
    "and refuses while a pod uses the addresses. Also works if the claim no " +
    "longer exists.",
  ],
  args: [{ name: "CLAIM", summary: "[NAMESPACE/]NAME of the IPAMClaim" }],
  flags: RELEASE_FLAGS,
  timeout: "1m",
  examples: {
    "cni release shop/db-0.storage.net1": "release the addresses of the claim",
  },
  load: async () => (await import("./cluster_gc/command.ts")).releaseClaim,
};

/** Describes the command of a program. */
export function describeClusterGc(program: string): CommandRow {
  return {
    name: "cluster-gc",
    summary: "Release addresses of deleted pods in the whole cluster",
    about: [
      "Compares the pools of whereabouts with the pods. Prints the addresses of " +
      "pods that were deleted or have terminated; with --yes, releases them. Keeps " +
      "the addresses of all other pods, even while their containers are created. " +
      "Before it releases addresses, it waits for --grace and checks again. " +
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
    load: async () => (await import("./cluster_gc/command.ts")).clusterGc,
  };
}
