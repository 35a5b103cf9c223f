/**
 * Describes a call for spans: what is called, of which container and pod.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import type { Subject } from "./recorder.ts";

/**
 * Describes a call.
 *
 * @param plugin The plugin's type
 * @param network The network's name, if it is known
 */
export function describeAttachment(
  plugin: string,
  env: Environment,
  network?: string,
): Subject {
  const command = env["CNI_COMMAND"] ?? "";
  const args = new Map(
    (env["CNI_ARGS"] ?? "").split(";").map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1)] as const;
    }),
  );
  return {
    kind: "call",
    name: command === "" ? plugin : `CNI ${command}`,
    attributes: {
      "cni.plugin": plugin,
      "cni.command": command || undefined,
      "cni.network": network,
      "cni.container_id": env["CNI_CONTAINERID"],
      "cni.ifname": env["CNI_IFNAME"],
      "cni.netns": env["CNI_NETNS"],
      "k8s.namespace.name": args.get("K8S_POD_NAMESPACE"),
      "k8s.pod.name": args.get("K8S_POD_NAME"),
      "k8s.pod.uid": args.get("K8S_POD_UID"),
    },
  };
}
