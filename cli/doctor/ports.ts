/**
 * Ports of the host that lead to containers.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { isOfNetns, type NodeAttachment } from "../node/node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { type Check, error, type Findings } from "./finding.ts";
import { nameAttachment } from "../node/live.ts";
import type { NodeReader } from "../node/node_reader.ts";
import {
  type ForwardedPort,
  isSameHostPort,
  listForwardedPorts,
} from "../../plugins/portmap/inspect.ts";

/** A port of the host, and the attachment that it leads to. */
interface Mapped {
  readonly attachment: NodeAttachment;
  readonly port: ForwardedPort;
}

function listMapped(attachment: NodeAttachment): Mapped[] {
  const result = resultOf(attachment);
  return result === undefined ? [] : listForwardedPorts(attachment, result)
    .map((port) => ({ attachment, port }));
}

function findTwice(node: NodeReader): Findings {
  const mapped = node.liveAttachments.flatMap(listMapped);
  const reported = new Set<string>();
  return mapped.flatMap((one, at) => {
    const earlier = mapped.slice(0, at).find((other) =>
      isSameHostPort(one.port)(other.port) &&
      !isOfNetns(other.attachment, one.attachment.netns)
    );
    if (earlier === undefined) return [];
    const [first, second] = [earlier, one]
      .map(({ attachment }) => nameAttachment(attachment));
    const { containerId, network, netns, ifName, pod } = one.attachment;
    const [namespace, name] = pod?.split("/") ?? [];
    const { hostPort, protocol } = one.port;
    const problem = `port ${hostPort} (${protocol}) of the host is mapped ` +
      `twice: to ${first} and to ${second}`;
    // A container with addresses of both families has the port twice.
    if (reported.has(problem)) return [];
    reported.add(problem);
    return [error(
      problem,
      "connections reach one of them only",
      {
        command: pod === undefined
          ? node.cni(
            shell`del ${network} ${netns} --container-id ${containerId} ` +
              shell`--ifname ${ifName}`,
          )
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
    howToInspect: "`cni list`, `nft list ruleset` or `iptables -t nat -S`.",
    howToFix: "Change the hostPort of one of them.",
    run: findTwice,
  },
];
