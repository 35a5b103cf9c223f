/**
 * Ports of the host that lead to containers.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { objectOf } from "../../base/json/json.ts";
import { isOfNetns, type NodeAttachment } from "../node/node_attachments.ts";
import { type Check, error, type Findings } from "./finding.ts";
import { nameAttachment } from "../node/live.ts";
import type { NodeReader } from "../node/node_reader.ts";

/** A port that a runtime asked for. */
interface Asked {
  readonly attachment: NodeAttachment;
  readonly protocol: string;
  readonly port: number;
  /** "" for all addresses. */
  readonly address: string;
}

function listAsked(attachment: NodeAttachment): Asked[] {
  const { portMappings } = attachment.capabilityArgs;
  return (Array.isArray(portMappings) ? portMappings : []).map(objectOf)
    .flatMap(({ hostPort, protocol, hostIP }) => {
      if (typeof hostPort !== "number" || hostPort === 0) return [];
      const address = typeof hostIP === "string" ? hostIP : "";
      return [{
        attachment,
        protocol: String(protocol ?? "tcp").toLowerCase(),
        port: hostPort,
        address: ["0.0.0.0", "::"].includes(address) ? "" : address,
      }];
    });
}

function findTwice(node: NodeReader): Findings {
  const asked = node.liveAttachments.flatMap(listAsked);
  return asked.flatMap((one, at) => {
    const earlier = asked.slice(0, at).find((other) =>
      other.port === one.port && other.protocol === one.protocol &&
      !isOfNetns(other.attachment, one.attachment.netns) &&
      (other.address === one.address || other.address === "" ||
        one.address === "")
    );
    if (earlier === undefined) return [];
    const [first, second] = [earlier, one]
      .map(({ attachment }) => nameAttachment(attachment));
    const { containerId, network, netns, ifName, pod } = one.attachment;
    const [namespace, name] = pod?.split("/") ?? [];
    return [error(
      `port ${one.port} (${one.protocol}) of the host is mapped twice: to ` +
        `${first} and to ${second}`,
      "connections reach one of them only",
      {
        command: pod === undefined
          ? shell`cni del ${network} ${netns} --container-id ${containerId} ` +
            shell`--ifname ${ifName}`
          : shell`kubectl -n ${namespace} delete pod ${name}`,
        advice: "give one of them another hostPort first",
      },
    )];
  });
}

/** Checks of ports. */
export const PORT_CHECKS: readonly Check[] = [
  {
    code: "CNI0506",
    name: "port-twice",
    finds: "two containers have the same host port",
    effect: "Connections reach only one of them.",
    cause:
      "Two pods with the same hostPort were placed by hand or by two runtimes, or a deleted container left its attachment.",
    look: "`cni list`, `nft list ruleset` or `iptables -t nat -S`.",
    fix: "Change the hostPort of one of them.",
    run: findTwice,
  },
];
