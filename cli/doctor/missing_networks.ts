/**
 * Pods that run without networks that their annotations request.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import {
  type MissingNetworks,
  readMissingNetworks,
} from "../../plugins/multus/inspect.ts";
import { type Check, error, type Findings, listed } from "./finding.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { readKubeconfigs } from "./services.ts";

/** Queries the node daemon, or the API server if the daemon has no list of pods. */
async function readMissing(
  node: NodeReader,
): Promise<readonly MissingNetworks[]> {
  const { env, signal } = node;
  const daemon = await node.daemonAt(node.daemonSocket).catch(() => undefined);
  const state = daemon?.is === "running" ? daemon.state : undefined;
  if (state?.missingNetworks !== undefined) return state.missingNetworks;
  const [{ path: kubeconfig } = {}] = await readKubeconfigs(node);
  if (kubeconfig === undefined) return [];
  const { attachments } = node;
  return await readMissingNetworks({ kubeconfig, env, signal, attachments });
}

async function findMissing(node: NodeReader): Promise<Findings> {
  return (await readMissing(node)).map(({ pod, networks }) => {
    const [namespace = "", name = ""] = pod.split("/");
    return error(
      `${pod} runs without what its annotation requests: ${listed(networks)}`,
      "its containers do not have that network",
      {
        advice: "delete the pod, and create it again",
        look: shell`kubectl -n ${namespace} describe pod ${name}`,
        subject: pod,
      },
    );
  });
}

/** The check of pods and their networks. */
export const MISSING_NETWORKS_CHECKS: readonly Check[] = [
  {
    code: "CNI0709",
    name: "network-missing",
    finds: "a pod runs without a network that it requests",
    effect: "The pod is Running, and does not have the network.",
    cause:
      "When it started, the configuration of multus was missing, so the runtime used a different one. Or its annotation was changed later.",
    howToInspect: "`kubectl describe pod`, and `ls /etc/cni/net.d`.",
    howToFix:
      "Delete the pod, and create it again. [Keep the configuration of multus](multus-operation.md#pods-without-net1) while the daemon is not running.",
    run: findMissing,
  },
];
